"""A program that writes to a store that others write to: shared_writer.py URL NAME COUNT."""

from __future__ import annotations

import sys

from stores.verbs import append, begin, opened

if __name__ == "__main__":
    url, name, count = sys.argv[1:]
    with opened(url) as store:
        stream = store.write(begin, "shared")
        for number in range(int(count)):
            store.write(append, stream, f"{name}.{number}")
