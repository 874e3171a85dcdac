"""How forgers make bundles: their members, packed and summed anew."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import perdure

Members = dict[str, bytes]


def exported(fill: Callable[[Any], Any], **chosen: Any) -> Members:
    with tempfile.TemporaryDirectory() as folder, perdure.open("memory:", actor="alice") as store:
        fill(store)
        store.export(f"{folder}/x", **chosen)
        with zipfile.ZipFile(f"{folder}/x") as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Members, how: Callable[[zipfile.ZipInfo], None] = lambda _: None, compression: int = 0) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            how(info)
            archive.writestr(info, data)
    return out.getvalue()


def manifest_of(members: Members) -> dict[str, Any]:
    return json.loads(members["manifest.json"])


def with_manifest(members: Members, manifest: Any) -> Members:
    rest = {name: data for name, data in members.items() if name != "manifest.json"}
    return rest | {"manifest.json": json.dumps(manifest).encode()}


def summed(members: Members) -> Members:
    """With right sums, whatever is in it."""
    manifest = manifest_of(members)
    manifest["members"] = [
        {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != "manifest.json"
    ]
    return with_manifest(members, manifest)


def lines_of(members: Members) -> list[bytes]:
    return members["log.jsonl"].splitlines()


def with_lines(members: Members, lines: list[bytes]) -> Members:
    return summed(members | {"log.jsonl": b"\n".join(lines) + b"\n"})
