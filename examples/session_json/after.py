"""The same loop with the session in a store: what was said and what was sent are known, wherever it was killed.

python after.py Hello "Any news?" Bye
"""

import sys
from pathlib import Path

import perdure


def was_sent(text):
    outbox = Path("outbox.txt")
    there = outbox.exists() and f"{text}\n" in outbox.read_text()
    return perdure.Happened("sent") if there else perdure.Absent()


@perdure.tool(probe=was_sent, lands_within=0)
def send(text):
    with Path("outbox.txt").open("a") as outbox:
        outbox.write(f"{text}\n")
    return "sent"


with perdure.open("sqlite:///session.db", actor="me") as store:
    session = store.session("chat")
    for number, message in enumerate(sys.argv[1:]):
        session.say("user", message, key=f"m{number}")
        session.act(send, f"re: {message}", key=f"reply-{number}")
    print(len(session.turns()), "turns")
