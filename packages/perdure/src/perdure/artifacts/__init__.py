"""Blobs outside the database: content-addressed files and objects, compression, the state tree."""
