# Generated from testing/contract/aio/__init__.py by tools/unasync.py: edit that one.
"""The contract, as written: async."""
