"""Neighbours: adapters for frameworks that keep their own words, one package and one extra each. `perdure` imports none."""

from perdure.model.siblings import check_fits

check_fits("perdure-adapters", "0.1.0")
