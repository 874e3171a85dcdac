"""The contract, as written: async."""
