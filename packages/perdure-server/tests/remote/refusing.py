"""A pytest plugin for a control: with it, the client of the contract answers `session.say` no more."""

from perdure.planes.conversation import turns
from perdure.remote import core
from perdure.remote.asking import ANSWERED

assert core.verbs
del ANSWERED[turns.say]
