"""Whether a framework is there, in a version that its adapter was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from perdure.errors import Refused


class MissingFramework(Refused, ImportError):
    """A framework is not installed, or in a version that the adapter does not support. The hint is the pip command."""


def need(package: str, at_least: tuple[int, ...], below: tuple[int, ...], extra: str) -> None:
    """Refuse in one line when a package is missing, or has a version outside at_least ≤ version < below."""
    command = f"pip install 'perdure[{extra}]'"
    try:
        found = version(package)
    except PackageNotFoundError:
        raise MissingFramework(f"{package} is not installed", path=extra, hint=command) from None
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in found.split(".")[:3])
    if not at_least <= numbers < below:
        asked = f"{'.'.join(map(str, at_least))} or newer, below {'.'.join(map(str, below))}"
        raise MissingFramework(
            f"{package} {found} is not supported, but {asked}", path=extra, hint=f"{command} --upgrade"
        )
