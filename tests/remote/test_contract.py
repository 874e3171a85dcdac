"""The shipped contract over HTTP."""

from perdure.testing.contract.suite import *  # noqa: F403
