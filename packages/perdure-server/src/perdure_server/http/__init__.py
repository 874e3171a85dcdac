"""HTTP: the verbs of the planes for any runtime, and the pages of the console. Routes come from one table (`table`)."""
