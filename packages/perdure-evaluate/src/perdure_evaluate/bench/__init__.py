"""Benchmarks: every figure beside a raw floor probed in the same run, so that a ratio holds on a noisy machine.

`perdure bench` runs them. A case says what it measures; `floor` says what the driver and the disk could do just before and
just after; nothing here asserts a time.
"""
