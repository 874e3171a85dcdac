"""A support agent: customers, tickets and preferences over many sessions, two agents at once, and a second version.

python support_agent.py                  # version 1 answers three tickets; one customer goes in mid-conversation
python support_agent.py --version 2      # the customer is back; a sentiment for all, and for the run that version 1 left open
"""

import argparse
import json
from contextlib import suppress
from pathlib import Path

import perdure

TICKETS = [
    ("t1", "ada", "My invoice is wrong!"),
    ("t2", "bob", "Thanks, how do I export?"),
    ("t3", "ada", "Still wrong!"),
]
VERSION = 1
OUTBOX = Path("outbox")  # the other side: one file for each key


def sent():
    return [json.loads(path.read_text()) for path in OUTBOX.glob("*.json")]


@perdure.tool(kind="keyed")
def reply(ticket, text, *, key):
    """The other side deduplicates on the key."""
    OUTBOX.mkdir(exist_ok=True)
    new = OUTBOX / f"{key}.new"
    new.write_text(json.dumps([ticket, text]))
    new.replace(OUTBOX / f"{key}.json")
    return {"to": ticket}


def sentiment(text):
    return "unhappy" if "!" in text else "fine"


@perdure.agent
def follow_up(run, ticket):
    """Asks whether it helped, and waits as long as it takes: no process is needed meanwhile, and any version continues it."""
    run.act(reply, ticket, "Did that help?")
    said = run.wait("customer")
    # A run that version 1 left waiting has not been here yet: it goes the new way. One that was past it stays as it was.
    score = run.step(sentiment, said) if VERSION > 1 and run.patched("sentiment") else None
    return {"said": said, "sentiment": score}


def follow(store, ticket, customer, come_back):
    """Drive the conversation until the customer is gone, or over."""
    run = store.start(follow_up, ticket, key=f"follow-{ticket}", session=ticket, about=[f"customer:{customer}"])
    if come_back:
        with suppress(perdure.Conflict):  # it is over; a signal that came twice waits there, and is not taken
            run.signal("customer", "It works, thanks")
    try:
        return store.drive(follow_up, ticket, key=f"follow-{ticket}", session=ticket)
    except perdure.Waiting:
        return f"waiting for {customer}"


def answer(store, ticket, customer, text, version):
    """One ticket. Persistent: the customer's scope. Session: the conversation. Ephemeral: nothing that must survive."""
    person = store.scope(f"customer:{customer}")
    session = store.session(ticket, labels=[f"customer:{customer}"])
    session.say("user", text, key="first", about=[f"customer:{customer}"])
    if customer == "ada":
        person.remember("Prefers short answers", kind="preference", key="short", about=["customer:ada"])
    with session.lock("ticket", ttl="1m", wait="30s"):  # two agents on one ticket: one waits, then finds it answered
        preferences = [hit.memory.text for hit in session.recall("answers")]
        words = (
            "We look into it." if "Prefers short answers" in preferences else "Thank you for writing. We look into it."
        )
        session.act(reply, ticket, words, key="reply")
        session.say("assistant", words, key="answer")
        if version > 1 and session.entry("sentiment") is None:
            session.set("sentiment", sentiment(text), expect=0)
        person.update(
            "tickets", lambda known: sorted({*(known or []), ticket})
        )  # two agents on one customer: nothing is lost
    if session.status != "completed":
        session.close("completed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int, default=1)
    VERSION = parser.parse_args().version
    with perdure.open("sqlite:///support.db", actor=f"agent-v{VERSION}") as store:
        for ticket, customer, text in TICKETS:
            answer(store, ticket, customer, text, VERSION)
        print(follow(store, "t2", "bob", come_back=VERSION > 1))
        print({name: store.scope(f"customer:{name}").get("tickets") for name in ("ada", "bob")})
        print(sorted(sent()))
        print([store.session(ticket).get("sentiment") for ticket, _, _ in TICKETS])
