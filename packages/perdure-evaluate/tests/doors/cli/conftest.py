"""A store with content and the command line as a function, for the tests beside this."""

from cli_fixtures import *  # noqa: F403
