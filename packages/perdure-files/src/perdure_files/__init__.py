"""Perdure in a folder of text files, with pages for people."""
