"""A research agent: a long loop with a growing history, sources kept as documents, and a budget that survives crashes.

python research_agent.py          # twelve rounds at most; kill it anywhere, and start it again
"""

import perdure

SOURCES = {f"source-{number}": f"Finding {number}: tides rise {number} cm." for number in range(1, 20)}
BUDGET_TOKENS = 600
ROUNDS = 12


def plan_query(number, known):
    """What a model would say; a step: it changes nothing outside, and its answer is kept."""
    return {"query": f"source-{number}", "tokens": 40 + 5 * known}


@perdure.tool(kind="read")
def fetch(query):
    return SOURCES[query]


@perdure.agent(checkpoint="every 5 steps")
def research(run, question):
    """Every round asks the model, reads a source and notes it. The journal is cut every five steps, so going on stays quick."""
    state = run.restored or {"spent": 0, "notes": []}
    for number in range(len(state["notes"]) + 1, ROUNDS + 1):
        planned = run.step(plan_query, number, len(state["notes"]))
        if state["spent"] + planned["tokens"] > BUDGET_TOKENS:
            break
        note = run.step(fetch, planned["query"])
        state = {"spent": state["spent"] + planned["tokens"], "notes": [*state["notes"], note]}
        run.checkpoint(state)
    return {"question": question, "spent": state["spent"], "notes": len(state["notes"]), "last": state["notes"][-1]}


if __name__ == "__main__":
    with perdure.open("sqlite:///research.db", actor="researcher") as store:
        session = store.session("tides", labels=["project:tides"])
        found = store.drive(research, "How high are tides?", key="tides", session="tides")
        project = store.scope("project:tides")
        for number in range(1, found["notes"] + 1):
            name = f"source-{number}"
            project.remember(SOURCES[name], kind="document", key=name, source=[f"https://example.com/{name}"])
        session.once("concluded", lambda tx: tx.session("tides").decide("Tides rise", because=found["last"]).seq)
        print(found)
        print(len(project.memories(kind="document")), len(session.decisions()), len(session.recall("tides rise", k=3)))
