"""Handles: what users hold. Written once in `aio`; `sync` is generated from it."""
