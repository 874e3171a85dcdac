"""Proof: benchmarks, the recovery protocol, and the rules of choosing."""
