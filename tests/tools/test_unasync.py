"""The generator of the sync twin: every rule, the refusals, and that a twin out of date is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_testing import unasync

TOOL = Path(__file__).parents[2] / "tools" / "unasync.py"

RULES = {
    "async def f(): await g(await h())": "def f(): g(h())",
    "async def f():\n    async with a() as b, c(): pass": "def f():\n    with a() as b, c(): pass",
    "async def f():\n    async for x in y: pass": "def f():\n    for x in y: pass",
    "async def f(): return [x async for x in y if await x]": "def f(): return [x for x in y if x]",
    "async def f():\n    return (await\n      g())": "def f():\n    return (\n      g())",
    "class AsyncX(_AsyncY, AbstractAsyncContextManager): pass": "class X(_Y, AbstractContextManager): pass",
    "x: AsyncContextManager[AsyncIterator[int]]": "x: ContextManager[Iterator[int]]",
    "x: AsyncGenerator[int, None]": "x: Generator[int, None, None]",
    "x: AsyncGenerator[int]": "x: Generator[int, None, None]",
    "x: AsyncGenerator[dict[A, AsyncX], tuple[B, C]]": "x: Generator[dict[A, X], tuple[B, C], None]",
    "async def __aenter__(self): raise StopAsyncIteration": "def __enter__(self): raise StopIteration",
    "def __aexit__(): __aiter__(); __anext__()": "def __exit__(): __iter__(); __next__()",
    "@asynccontextmanager\nasync def f(): yield": "@contextmanager\ndef f(): yield",
    "x = aclosing(aiter(y)); anext(x)": "x = closing(iter(y)); next(x)",
    "perdure.aopen(u)": "perdure.open(u)",
    "from perdure.handles.aio.a import AsyncStore": "from perdure.handles.sync.a import Store",
    "import asyncio\nasync def f(): await asyncio.sleep(1)": "import time\ndef f(): time.sleep(1)",
    "x = asyncio.run(f())": "x = (f())",
    "__all__ = ['AsyncStore', '_AsyncX']": "__all__ = ['Store', '_X']",
    "patch('perdure.handles.aio.store.AsyncStore')": "patch('perdure.handles.sync.store.Store')",
}

UNTOUCHED = [
    "x = 'await this, AsyncStore'  # await, async def, AsyncStore",
    "asynchronous = Asynchrony = is_async = awaited = 1",
    "x = f'{y} await AsyncStore'",
    "x = 'aio', 'aopen', 'async twin'",
    "def f(x):\n        # odd   layout\n        return  x\n",
    "x = 'a page\x0cbreak \u2028 line'; y = 2",
]


@pytest.mark.parametrize(("source", "twin"), RULES.items())
def test_each_rule(source: str, twin: str) -> None:
    assert unasync.translate(source) == twin


@pytest.mark.parametrize("source", UNTOUCHED)
def test_strings_comments_and_layout_stay(source: str) -> None:
    assert unasync.translate(source) == source


def test_docstrings_are_translated() -> None:
    source = '''class AsyncA:
    """The async twin, an AsyncStore.

    >>> async with perdure.aopen("memory:") as store:
    ...     await store.close()
    An asynchronous story that awaits its end.
    """  # noqa: X1
    x = """await AsyncA"""
'''
    twin = unasync.translate(source)
    assert '"""The sync twin, a Store.' in twin
    assert '>>> with perdure.open("memory:") as store:\n    ...     store.close()' in twin
    assert "An asynchronous story that awaits its end." in twin
    assert 'x = """await AsyncA"""' in twin


def test_sync_lines_and_async_only_blocks() -> None:
    source = """\
class AsyncA:
    async def all(self, jobs):
        # async-only
        await asyncio.gather(*jobs)
        # end
        # sync: for job in jobs:
        # sync:     job(asyncio)
        return await self.last()
"""
    assert unasync.translate(source) == (
        "class A:\n    def all(self, jobs):\n"
        "        for job in jobs:\n            job(asyncio)\n        return self.last()\n"
    )


def test_a_block_may_end_the_file() -> None:
    assert unasync.translate("x = 1\n# async-only\nimport anyio\n# end") == "x = 1\n"


REFUSED = {
    "x = 1\nasyncio.gather(a)": "line 2: asyncio.gather has no sync meaning",
    "x: Awaitable[int]": "line 1: Awaitable has no sync meaning",
    "from asyncio import sleep": "line 1: asyncio has no sync meaning",
    "import asyncio.subprocess": "line 1: asyncio.subprocess has no sync meaning",
    "import anyio": "line 1: anyio has no sync meaning",
    "x = 1\n# async-only\ny = 2": "line 2: `# async-only` and `# end` do not pair",
    "x = 1\n# end": "line 2: `# async-only` and `# end` do not pair",
    "# async-only\n# async-only\n# end\n# end": "line 1: `# async-only` and `# end` do not pair",
    "x = 1  # sync: x = 2": "line 1: `# sync:` stands on a line of its own",
    "async def f(): return f'{await g()}'": "line 1: name `await g()` outside the f-string",
    "x = f'{AsyncStore}'": "line 1: name `AsyncStore` outside the f-string",
    "def f():\n    # async-only\n    pass\n    # end": "expected an indented block",
    "# sync: await x": "'await' outside function",
}


@pytest.mark.parametrize(("source", "message"), REFUSED.items())
def test_what_has_no_sync_meaning_is_refused(source: str, message: str) -> None:
    with pytest.raises(SyntaxError) as caught:
        unasync.translate(source)
    assert message in str(caught.value)


@given(st.lists(st.sampled_from(sorted(RULES)), min_size=1, max_size=6))
def test_rules_compose_and_a_twin_is_its_own_twin(sources: list[str]) -> None:
    twin = unasync.translate("\n".join(sources))
    assert twin == "\n".join(RULES[source] for source in sources)
    assert unasync.translate(twin) == twin


# The whole tool, on a small checkout of its own.


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    handles = tmp_path / "packages/perdure/src/perdure/handles/aio"
    tests = tmp_path / "packages/perdure/tests/handles/aio"
    for folder in (handles, tests):
        folder.mkdir(parents=True)
    (handles / "__init__.py").touch()
    (handles / "store.py").write_text(
        "import asyncio\nfrom collections.abc import AsyncIterator, Callable\n\n"
        "f: Callable\n\n\nasync def g() -> AsyncIterator[int]:\n    return await (\n        f()\n    )\n"
    )
    (tests / "conftest.py").write_text("import asyncio\n\nasyncio.gather\n")
    (tests / "test_store.py").write_text("async def test_x(store):\n    await store.close()\n")
    return tmp_path


def run(checkout: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--root", str(checkout), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_writes_sorted_and_formatted_twins(checkout: Path) -> None:
    assert run(checkout).returncode == 0
    store = checkout / "packages/perdure/src/perdure/handles/sync/store.py"
    assert store.read_text() == (
        "# Generated from handles/aio/store.py by tools/unasync.py: edit that one.\n"
        "from collections.abc import Callable, Iterator\n\nf: Callable\n\n\n"
        "def g() -> Iterator[int]:\n    return f()\n"
    )
    test = checkout / "packages/perdure/tests/handles/sync/test_store.py"
    assert test.read_text().startswith("# Generated from packages/perdure/tests/handles/aio/test_store.py by")
    assert test.read_text().endswith("def test_x(store):\n    store.close()\n")
    assert not (checkout / "packages/perdure/tests/handles/sync/conftest.py").exists()
    assert run(checkout, "--check").returncode == 0


@pytest.mark.parametrize("damage", ["edit the twin", "edit the source", "remove the twin", "remove the source"])
def test_check_names_the_twin_that_differs_and_the_cure_mends_it(checkout: Path, damage: str) -> None:
    run(checkout)
    verb, which = damage.split(" the ")
    path = checkout / "packages/perdure/src/perdure/handles" / {"twin": "sync", "source": "aio"}[which] / "store.py"
    path.unlink() if verb == "remove" else path.write_text(path.read_text() + "\nx = 1\n")
    checked = run(checkout, "--check")
    assert checked.returncode == 1
    assert checked.stdout == (
        "differs: packages/perdure/src/perdure/handles/sync/store.py\nmend it with: python tools/unasync.py\n"
    )
    assert run(checkout).returncode == 0
    assert run(checkout, "--check").returncode == 0


def test_a_file_of_its_own_beside_the_twins_stays(checkout: Path) -> None:
    own = checkout / "packages/perdure/tests/handles/sync/conftest.py"
    own.parent.mkdir()
    own.write_text("x = 1\n")
    assert run(checkout).returncode == 0
    assert own.read_text() == "x = 1\n"


def test_a_checkout_without_a_source_is_no_success(tmp_path: Path) -> None:
    checked = run(tmp_path, "--check")
    assert (checked.returncode, checked.stderr) == (1, f"{tmp_path}: no source of a twin in it\n")


def test_a_refusal_names_the_file(checkout: Path) -> None:
    (checkout / "packages/perdure/src/perdure/handles/aio/bad.py").write_text("import asyncio\n\nasyncio.gather()\n")
    refused = run(checkout)
    assert refused.returncode == 1
    assert refused.stderr.startswith("handles/aio/bad.py: line 3: asyncio.gather has no sync meaning")
