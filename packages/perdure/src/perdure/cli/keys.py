"""Files that commands make: never over another one, and keys for anchors with the mode that secrets need."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.errors import Conflict, Refused


def check_new(path: Path, option: str) -> None:
    """Conflict when something is there: nothing is ever overwritten. For what costs much before it is written."""
    if path.exists() or path.is_symlink():
        raise _exists(path, option)


def _exists(path: Path, option: str) -> Conflict:
    return Conflict(f"{path} exists already, and nothing is ever overwritten", path=option, hint="name another")


def write_private(path: Path, data: bytes, option: str) -> None:
    """Write a new file that only its owner may read. Conflict when it exists."""
    try:
        number = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    except FileExistsError:
        raise _exists(path, option) from None
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(number)


def new_key_pair(path: Path) -> Path:
    """Make an Ed25519 key: the private one in `path`, the public one beside it. Returns where that is."""
    try:
        from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    except ImportError:
        raise Refused("keys need an extra", path="new-key", hint="pip install 'perdure[crypto]'") from None
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    check_new(path, "new-key")
    public = path.with_name(f"{path.name}.pub")
    check_new(public, "new-key")
    write_private(path, secret, "new-key")
    public.write_bytes(key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    return public
