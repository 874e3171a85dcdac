"""The plumbing of reading: pages, listings, durations, rows, bodies, origins, labels, snapshots, lineage."""
