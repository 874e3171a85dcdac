"""DBOS on SQLite: the task is a workflow, what it does are steps, notes are its events, and a person's answer is a message to it.

As its documentation has it: an interrupted workflow continues when DBOS is launched again; a step may run again after a crash, so
it sends its workflow and step as the key where the other side knows keys, and looks first where one can look.
"""
# ruff: noqa: ARG002, D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from perdure_evaluate.recovery.interface import Belief, Subject, SubjectAgent, Waits
from perdure_evaluate.recovery.outside import KINDS, Knowing

WAIT_SECONDS = 7 * 86_400.0


class Dbos(Subject):
    """One file, `dbos.sqlite`. The workflow is named by the folder."""

    about = "DBOS on SQLite: a workflow of steps, recovered at launch"
    peer = "dbos"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/dbos.sqlite"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found]

        self.dbos, self.news, key = DBOS, queue.SimpleQueue[Exception | None](), self.place.folder.name
        DBOS(config={"name": "evaluated", "system_database_url": self.url, "application_version": "1",
                     "log_level": "CRITICAL"})  # fmt: skip

        @DBOS.workflow(name="evaluated")
        def evaluated(_task: str, _seed: int) -> Any:
            program(self)
            return self.result

        DBOS.launch()  # continues what was interrupted
        if DBOS.get_workflow_status(key) is None:
            with SetWorkflowID(key):
                DBOS.start_workflow(evaluated, self.place.task, self.place.seed)
        for name, message in self.inbox.items():
            DBOS.send(key, message, topic=name, idempotency_key=f"{key}-{name}")
        threading.Thread(target=self._follow, args=(DBOS.retrieve_workflow(key),), daemon=True).start()
        if (outcome := self.news.get()) is not None:
            raise outcome

    def _follow(self, handle: Any) -> None:
        """Say how it ended; until then, what it waits for is said by `ask`."""
        try:
            handle.get_result(polling_interval_sec=0.02)
            self.news.put(None)
        except Exception as error:  # noqa: BLE001 - raised again by who waits
            self.news.put(error)

    def believe(self) -> Belief:
        from dbos import DBOSClient  # type: ignore[import-not-found]

        client, key = DBOSClient(system_database_url=self.url), self.place.folder.name
        try:
            workflows = client.list_workflows(workflow_ids=[key])
            done = {step["function_name"]: step["output"] for step in client.list_workflow_steps(key)}
            effects = {name[4:]: output for name, output in done.items() if name.startswith("act ")}
            ended = bool(workflows) and workflows[0].status == "SUCCESS"
            return Belief(client._sys_db.get_all_events(key), effects, workflows[0].output if ended else None, ended)
        finally:
            client.destroy()

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        return self.dbos.run_step({"name": f"step {name}"}, work)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        return self.dbos.run_step({"name": f"act {name}"}, lambda: self._sent(name, kind, payload))

    def _sent(self, name: str, kind: str, payload: Any) -> Any:
        looked = self.outside.find(name, kind, payload) if KINDS[kind] is Knowing.FOUND else None
        return looked or self.outside.send(name, kind, payload, f"{self.dbos.workflow_id}-{self.dbos.step_id}")

    def note(self, key: str, value: Any) -> None:
        self.dbos.set_event(key, value)

    def ask(self, name: str, question: str) -> str:
        if name not in self.inbox:
            self.news.put(Waits([name]))
        return self.dbos.recv(name, timeout_seconds=WAIT_SECONDS)

    def done(self, result: Any) -> None:
        self.result = result
