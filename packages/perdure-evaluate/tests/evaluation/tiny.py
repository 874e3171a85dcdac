"""A tiny peer: a wheel of a few lines, made here, so that no test needs a network."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from perdure_evaluate import peers

NAME = "tiny"
FILES = {
    "tiny_peer.py": "VERSION = 7\n",
    "click.py": "OF = 'the peer'\n",  # a package that we have too
    "tiny_peer-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.0\n",
    "tiny_peer-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: here\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def wheel(folder: Path) -> Path:
    """Make it."""
    path = folder / "tiny_peer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in FILES.items():
            file.writestr(name, text)
        file.writestr("tiny_peer-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in FILES))
    return path


def known(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the tiny peer be the only one, kept in this folder."""
    path = folder / "tiny_peer-1.0-py3-none-any.whl"
    monkeypatch.setattr(peers, "PEERS", {NAME: peers.Peer((str(path),), ("tiny_peer",))})
    monkeypatch.setenv("PERDURE_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
