"""Conformance of workers: any program that speaks the claim protocol is killed, stopped and cut off, and all is counted."""
