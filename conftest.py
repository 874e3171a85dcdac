"""The fixtures and hooks of all tests. They stand at the root, where the tests of every package see them."""

from shared_fixtures import *  # noqa: F403

pytest_plugins = ["tiers"]
