"""An agent with tools. Kill it wherever you like and start it again: it resumes, and nothing is done twice.

Copy chat.py, tools.py and agent.py into an empty folder, say which model is asked (chat.py) and where articles go, and run there:

    export MODEL_URL=https://api.example.com/v1 MODEL_NAME=some-model MODEL_KEY=...
    export PUBLISH_URL=https://blog.example.com/articles
    python agent.py "Write about tides and publish it"      # until it is done, or waits for you
    perdure asks; perdure answer ASK approve                # it asks before it publishes
    python agent.py "Write about tides and publish it"      # the same again: it resumes
"""

import os
import sys

import perdure
from chat import chat, check_settings, told
from tools import TOOLS, read_note

STORE = os.environ.get("PERDURE_STORE", "sqlite:///agent.db")


def think(messages):
    """Ask the model. Its answer is kept: it is asked and paid once."""
    return chat(messages, TOOLS)


def look_up(messages):
    return chat(messages, [read_note])


def talk(run, ask, tools, messages):
    """The loop: the model answers, its calls are carried out, it hears what became of them; until it makes none."""
    for _ in range(50):
        reply = patiently(run, ask, messages, tools)
        messages.append(reply.value["message"])
        if not reply.answers:
            return messages[-1]["content"]
        messages += [told(answer) for answer in reply.answers]
    raise RuntimeError("it comes to no end")


def patiently(run, ask, messages, tools):
    """A model that is busy is asked again; the run sleeps meanwhile, and nobody has to hold it."""
    for pause in ("1s", "10s", "1m", "10m"):
        try:
            return run.respond(ask, messages, tools=tools, pins={"model": os.environ["MODEL_NAME"]})
        except perdure.Failed as error:
            if error.code != "Busy":
                raise
            run.sleep(pause)
    return run.respond(ask, messages, tools=tools)


@perdure.agent
def researcher(run, topic):
    """A run of its own for a part: it reads, and does nothing outside."""
    return talk(run, look_up, [read_note], [{"role": "user", "content": f"What do the notes say about {topic}?"}])


@perdure.agent
def writer(run, task, topics):
    """The parts are begun together, and driven at the same time where there are workers."""
    parts = [run.start(researcher, topic) for topic in topics]
    found = "\n".join(part.result() for part in parts)
    messages = [{"role": "system", "content": f"You write. This is known:\n{found}"}, {"role": "user", "content": task}]
    return talk(run, think, TOOLS, messages)


def tokens(store):
    """The usage of all runs: each answer of a model keeps its `usage`."""
    notes = [step.notes for run in store.runs() for step in run.steps(after=0)]
    return sum(note["usage"]["total_tokens"] for note in notes if note.get("usage"))


if __name__ == "__main__":
    check_settings()
    task = sys.argv[1]
    with perdure.open(STORE, actor="me") as store:
        try:
            print(store.drive(writer, task, ["tides", "the moon"], key=task))
        except perdure.Waiting as waiting:
            sys.exit(f"{waiting}")
        print(tokens(store), "tokens")
