"""Perdure over HTTP: the door, the console, A2A, telemetry."""

from perdure.model.siblings import check_fits

check_fits("perdure-server", "0.1.0")
