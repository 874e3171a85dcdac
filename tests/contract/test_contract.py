"""The shipped contract on our own stores. A new contract module is found by itself."""

from perdure_testing.contract.suite import *  # noqa: F403
