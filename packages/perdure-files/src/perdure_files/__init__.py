"""Perdure in a folder of text files, with pages for people."""

from perdure.model.siblings import check_fits

check_fits("perdure-files", "0.1.0")
