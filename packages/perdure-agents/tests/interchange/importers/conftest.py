"""A store to import into, the samples, and importing as a function: `import_fixtures`."""

from import_fixtures import *  # noqa: F403
