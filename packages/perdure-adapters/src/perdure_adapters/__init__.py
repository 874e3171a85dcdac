"""Neighbours: adapters for frameworks that keep their own words, one package and one extra each. `perdure` imports none."""
