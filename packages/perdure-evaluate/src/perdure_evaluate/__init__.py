"""Proof: benchmarks, and the recovery protocol."""
