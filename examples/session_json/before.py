"""What many begin with: the whole session in one JSON file. Killed between two lines, it does things twice.

python before.py Hello "Any news?" Bye
"""

import json
import os
import signal
import sys
from pathlib import Path

FILE = Path("session.json")
DIE_AT = int(os.environ.get("DIE_AT", "0"))  # for the test: which boundary kills
reached = 0


def boundary():
    global reached  # noqa: PLW0603 - a test counts with it
    reached += 1
    if reached == DIE_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def send(text):
    with Path("outbox.txt").open("a") as outbox:
        outbox.write(f"{text}\n")


state = json.loads(FILE.read_text()) if FILE.exists() else {"turns": []}
for message in sys.argv[1:]:
    if message in [turn["text"] for turn in state["turns"]]:
        continue
    boundary()
    send(f"re: {message}")
    boundary()  # sent, and nobody knows
    state["turns"].append({"role": "user", "text": message})
    FILE.write_text(json.dumps(state))
    boundary()
print(len(state["turns"]), "turns")
