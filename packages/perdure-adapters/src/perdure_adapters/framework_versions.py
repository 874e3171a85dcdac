"""Whether a framework is there, in a version that its adapter was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from perdure.errors import Refused


class MissingFramework(Refused, ImportError):
    """A framework is not installed, or in a version that the adapter does not support. The hint is the pip command."""


def need(package: str, at_least: tuple[int, ...], below: tuple[int, ...], extra: str = "") -> None:
    """Refuse in one line when a package is missing, or has a version outside at_least ≤ version < below.

    extra: the extra of ours that brings the package, if one does.
    """
    lowest, end = (".".join(map(str, bound)) for bound in (at_least, below))
    itself = f"pip install '{package}>={lowest},<{end}'"
    try:
        installed = version(package)
    except PackageNotFoundError:
        hint = f"pip install 'perdure[{extra}]'" if extra else itself
        raise MissingFramework(f"{package} is not installed", hint=hint) from None
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in installed.split(".")[:3])
    if not at_least <= numbers < below:
        message = f"{package} {installed} is installed, and this adapter needs {lowest} or newer, below {end}"
        raise MissingFramework(message, hint=itself)
