"""A loop of your own: the session has the conversation, `pending` says what is open in it, and `respond` does each call once.

    export MODEL_URL=https://api.example.com/v1 MODEL_NAME=some-model MODEL_KEY=...
    export PUBLISH_URL=https://blog.example.com/articles
    python loop.py issue-42 m1 "Write a note about tides"
    python loop.py issue-42 m2 "Shorter, please"

m1 names the message: killed and started again, or sent twice, it is said once, and what it led to is done once.
"""

import os
import sys

import perdure
from chat import chat, check_settings
from tools import TOOLS

STORE = os.environ.get("PERDURE_STORE", "sqlite:///agent.db")
KEPT_TURNS = 40


def answer(session):
    """Go on with the conversation until nothing is open in it, wherever the last process died."""
    while (pending := session.pending()) is not None:
        turn = pending.turn
        if pending.kind == perdure.PendingKind.RESULTS:  # it died, or waited, in the middle of these calls
            session.respond(turn.content, calls=turn.calls, tools=TOOLS)
            continue
        reply = chat(session.transcript(format="openai"), TOOLS)
        session.emit("model.answered", {"usage": reply["usage"]})
        session.respond(reply["message"]["content"], calls=reply["calls"], tools=TOOLS)
    return session.turns(last=1)[0].content


def shorten(session):
    """A long conversation costs with every answer: let a summary stand for what is old. The turns stay in the store."""
    messages = session.transcript(format="openai")
    begins = [turn for turn in session.turns(last=KEPT_TURNS) if turn.role == perdure.Role.USER]
    if len(messages) >= 2 * KEPT_TURNS and begins:  # the rest begins with a user's turn
        (last,) = session.turns(before=begins[0].seq, limit=1)
        asked = [*messages, {"role": "user", "content": "Sum up our conversation so far."}]
        session.summarise(upto=last.seq, text=chat(asked, [])["message"]["content"])


if __name__ == "__main__":
    check_settings()
    name, key, text = sys.argv[1:]
    with perdure.open(STORE, actor="me") as store:
        session = store.session(name)
        session.say("system", "You keep notes.", key="rules")
        session.say("user", text, key=key)
        try:
            print(answer(session))
        except perdure.Waiting as waiting:  # for an approval: then the same again
            sys.exit(f"{waiting}")
        shorten(session)
