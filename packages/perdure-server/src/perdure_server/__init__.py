"""Perdure over HTTP: the door, the console, A2A, telemetry."""
