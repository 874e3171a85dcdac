"""Proof: benchmarks, and the recovery protocol."""

from perdure.model.siblings import check_fits

check_fits("perdure-evaluate", "0.1.0")
