"""The contract: one suite that every store must pass, in both colours; a store of another package can run it too.

Each class takes an `opener` (see `perdure_testing.openers`) and nothing else from the outside.
"""
