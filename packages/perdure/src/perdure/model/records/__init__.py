"""Records: what verbs return. Frozen, typed, one module a plane."""
