"""Proof: benchmarks and, later, the recovery protocol."""
