"""A mutator by seed: changes well-formed input a little, so that it gets past the first check of a parser and trips the next."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

DIGITS = ["0", "-1", "1", "9" * 25, "-9223372036854775809", "1e999", "NaN", "٣", "0x10", "1_0", ".5", "²"]
TEXTS = [
    "",
    "\0",
    "\ud800",
    "\u202e",
    "a" * 5_000,
    "null",
    "{}",
    "[]",
    "[" * 2_000,
    '"',
    "\\",
    "%00",
    "%zz",
    "..",
    "://",
    "@",
    "#",
    "?",
    "é",
    "$",
]


def mutants(samples: Sequence[str] | Sequence[bytes], count: int, seed: int) -> Iterator[str | bytes]:
    """So many inputs, of the type of the samples."""
    chance = random.Random(seed)
    for _ in range(count):
        sample = chance.choice(samples)
        yield _text(sample, samples, chance) if isinstance(sample, str) else _bytes(sample, samples, chance)


def _text(sample: str, samples: Sequence, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        at, end = sorted((chance.randint(0, len(sample)), chance.randint(0, len(sample))))
        match chance.randrange(6):
            case 0:
                sample = sample[:at] + sample[end:]
            case 1:
                sample = sample[:at] + chance.choice(TEXTS) + sample[at:]
            case 2:
                sample = sample[:at] + chance.choice(DIGITS) + sample[end:]
            case 3:
                sample = sample[:at] + chance.choice(samples)[: chance.randint(0, 40)] + sample[end:]
            case 4:
                sample = sample[:at] + sample[at:end] * 2 + sample[end:]
            case _:
                sample = (
                    sample[:at]
                    + chr(chance.choice((chance.randrange(128), chance.randrange(0xD800))))
                    + sample[at + 1 :]
                )
    return sample


def _bytes(sample: bytes, samples: Sequence, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 4)):
        at, end = sorted((chance.randint(0, len(sample)), chance.randint(0, len(sample))))
        match chance.randrange(5):
            case 0:
                sample = sample[:at] + sample[end:]
            case 1:
                sample = sample[:at] + chance.choice(DIGITS + TEXTS).encode("utf-8", "surrogatepass") + sample[at:]
            case 2:
                sample = sample[:at] + chance.randbytes(chance.randint(1, 8)) + sample[end:]
            case 3:
                sample = sample[:at] + chance.choice(samples)[: chance.randint(0, 60)] + sample[end:]
            case _:
                sample = sample[:at] + bytes([chance.randrange(256)]) + sample[at + 1 :]
    return sample
