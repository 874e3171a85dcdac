"""--anchor and --public-key, and reading what they name: for `verify` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.given import read_given
from perdure.errors import Invalid

if TYPE_CHECKING:
    from perdure.log.anchor import Anchor

READABLE_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)
ANCHOR_HELP = "An anchor that was kept elsewhere: a cut tail shows, too."
KEY_HELP = "The public key of the signer (PEM); without it, the signature is not checked."

NEW_KEY = "perdure anchor --new-key FILE makes one"
KEYS = {  # where an error says the key came from -> what it should have been
    "private_key": ("not an Ed25519 private key in PEM form", NEW_KEY),
    "public_key": ("not an Ed25519 public key in PEM form", f"{NEW_KEY}, with its public one in FILE.pub"),
}


@contextmanager
def keys_read() -> Iterator[None]:
    """Translate a cryptography library's complaint about a file that is no key."""
    try:
        yield
    except Invalid as error:
        if error.path not in KEYS:
            raise
        message, hint = KEYS[error.path]
        raise Invalid(message, path=error.path.replace("_", "-"), hint=hint) from error


def anchored(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options."""
    key = click.option("--public-key", type=READABLE_FILE, help=KEY_HELP)
    anchor = click.option("--anchor", "anchor_file", type=READABLE_FILE, help=ANCHOR_HELP)
    return anchor(key(function))


def read_anchored(anchor_file: Path | None, public_key: Path | None) -> tuple[Anchor | None, bytes | None]:
    """Read the anchor that the options name. Raises Invalid when the file is no anchor."""
    if anchor_file is None:
        if public_key is not None:
            raise click.UsageError("--public-key is for the signature of an --anchor FILE")
        return None, None
    from perdure.log.anchor import Anchor  # noqa: PLC0415 - only for who has one

    return Anchor.from_json(read_given(anchor_file)), read_given(public_key) if public_key else None
