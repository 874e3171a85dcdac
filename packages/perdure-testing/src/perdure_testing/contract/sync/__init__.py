"""The contract for the sync handles: each module here is the twin of one in `contract/aio`, translated when it is imported.

A finder on `sys.meta_path` answers for this package alone. Python caches the bytecode as it does for every module, until the
async source or the translator changes. Tracebacks show the translated lines.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure_testing import unasync

_HERE = Path(__file__).parent
_TRANSLATOR = Path(unasync.__file__)


class _Translated(SourceFileLoader):
    """Loads `sync/turns.py`, which is nowhere on the disk, from `aio/turns.py`."""

    @property
    def _source(self) -> Path:
        return _HERE.parent / "aio" / Path(self.path).name

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """The time that cached bytecode is compared with. The size of the twin is known only once it is translated."""
        return {"mtime": max(row.stat().st_mtime for row in (self._source, _TRANSLATOR)), "size": None}

    def get_data(self, path: str) -> bytes:
        """The translated source; everything else, such as cached bytecode, is read from the disk."""
        if path != self.path:
            return super().get_data(path)
        return unasync.translate(self._source.read_text("utf-8")).encode()


class _Twins(MetaPathFinder):
    """Finds the modules of this package."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if package != __name__ or not (_HERE.parent / "aio" / f"{module}.py").is_file():
            return None
        twin = str(_HERE / f"{module}.py")
        return spec_from_file_location(name, twin, loader=_Translated(name, twin))


sys.meta_path.append(_Twins())
