"""Key files for anchors: made with the mode that secrets need."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.errors import Conflict, Refused


def write_private(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file that only its owner may read. Conflict when it exists and is not to be replaced."""
    flags = os.O_CREAT | os.O_WRONLY | (os.O_TRUNC if replace else os.O_EXCL)
    try:
        number = os.open(path, flags, 0o600)
    except FileExistsError:
        raise Conflict(f"{path} exists already", path="new-key", hint="name another file") from None
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
    public = path.with_name(f"{path.name}.pub")
    write_private(path, secret)
    public.write_bytes(key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    return public
