# Generated from handles/aio/__init__.py by tools/unasync.py: edit that one.
"""The handles, as written: async."""
