"""A store that was opened before a fork is refused in the child; async reads there would wait for threads that are gone."""

from __future__ import annotations

import asyncio
import os
import signal

import perdure


def test_an_async_read_in_a_forked_child_is_refused(tmp_path) -> None:
    async def open_and_read():
        store = await perdure.aopen(f"sqlite:///{tmp_path}/a.db")
        session = await store.session("s")
        await session.turns()
        return store, session

    loop = asyncio.new_event_loop()
    store, session = loop.run_until_complete(open_and_read())
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            asyncio.new_event_loop().run_until_complete(session.turns())
        except perdure.Refused:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    loop.run_until_complete(store.close())
    loop.close()
    assert os.waitstatus_to_exitcode(status) == 7
