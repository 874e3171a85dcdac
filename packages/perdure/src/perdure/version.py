"""The version of this package and, by exact pins, of all its siblings."""

VERSION = "0.1.0"
