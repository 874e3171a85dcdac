"""The shipped contract over HTTP."""

from perdure_testing.contract.suite import *  # noqa: F403
