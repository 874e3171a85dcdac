"""The kit: the shipped contract suite, a fake clock, crash points, a throw-away PostgreSQL."""

from perdure.model.siblings import check_fits

check_fits("perdure-testing", "0.1.0")
