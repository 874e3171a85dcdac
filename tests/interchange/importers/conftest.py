"""The fixtures of the importers' tests, which lie with their package."""

from import_fixtures import *  # noqa: F403
