"""A deterministic simulation: many processes on one store, under one seed.

One scheduler decides who continues, where a process dies or stands still, when the clock moves and which reply is lost; the
outside world counts what arrived. The same seed gives the same history. Our own proof uses it (`tests/proof`), and so may the
author of a store who wants to know what becomes of P1-P4, P7 and P13 on it.
"""

from perdure_testing.simulation.machine import Machine, Process
from perdure_testing.simulation.scheduler import Died, Rates, Scheduler
from perdure_testing.simulation.world import World

__all__ = ["Died", "Machine", "Process", "Rates", "Scheduler", "World"]
