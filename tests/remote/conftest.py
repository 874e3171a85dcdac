"""The contract over HTTP: which of its tests run, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remote.contract_server import AsyncRemoteOpener, ContractServer, RemoteOpener


@pytest.fixture(scope="session")
def contract_server() -> Iterator[ContractServer]:
    server = ContractServer()
    yield server
    server.close()


@pytest.fixture
def opener(request: pytest.FixtureRequest, contract_server, tmp_path) -> RemoteOpener:
    """Opens a store over HTTP, in the colour of the test class."""
    is_async = request.cls is not None and request.cls.__name__.startswith("TestAsync")
    return (AsyncRemoteOpener if is_async else RemoteOpener)(contract_server, tmp_path)
