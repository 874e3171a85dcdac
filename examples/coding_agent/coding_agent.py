"""A coding agent whose context dies: rules, plan, failed approaches and decisions come back. A script stands for the model.

python coding_agent.py            # works in ./repo; kill it anywhere, and start it again
"""

from pathlib import Path

import perdure

REPO = Path("repo")
PLAN = ["write parser.py", "write test_parser.py", "run the tests", "write README.md"]
FILES = {
    "parser.py": "def parse(text):\n    return text.split(',')\n",
    "test_parser.py": "from parser import parse\n\n\ndef test_parse():\n    assert parse('a,b') == ['a', 'b']\n",
    "README.md": "# Parser\n\nRun the tests with pytest.\n",
}


@perdure.tool(kind="idempotent")
def write_file(name, text):
    """Twice is as good as once."""
    REPO.mkdir(exist_ok=True)
    (REPO / name).write_text(text)
    return len(text)


def begin(session):
    """What the user says, and the plan: each once, whatever crashes."""
    session.goal = "A parser with tests"
    session.remember("Never edit files outside of repo/", kind="rule", key="rule-1")
    before = None
    for title in PLAN:
        before = session.task(title, key=title, needs=[before] if before else [])


def work_on(session, task):
    """One task of the plan, as a model would do it after it has read the boot."""
    if task.title == "run the tests":
        session.remember("Splitting with a regex broke on quotes", kind="failed_approach", key="regex")
        session.once(
            "split", lambda tx: tx.session(session.name).decide("Split on commas", because="a regex broke").seq
        )
    else:
        name = task.title.removeprefix("write ")
        session.act(write_file, name, FILES[name], key=task.title)


if __name__ == "__main__":
    with perdure.open("sqlite:///agent.db", actor="coder") as store:
        session = store.session("parser")
        begin(session)
        pack = session.boot(
            budget=2_000, task="finish the plan"
        )  # what the model is given, in place of its old context
        assert "Never edit files outside of repo/" in pack.text
        while (task := session.claim_next()) is not None:
            work_on(session, task)
            task.done("as planned")
        for decision in session.decisions(open=True):
            decision.close("worked")
        print({each.title: each.status.value for each in session.tasks()})
        print(sorted(path.name for path in REPO.iterdir()))
        print([each.text for each in session.memories(kind="failed_approach")], len(session.decisions()))
