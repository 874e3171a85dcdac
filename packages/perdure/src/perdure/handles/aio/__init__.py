"""The handles, as written: async."""
