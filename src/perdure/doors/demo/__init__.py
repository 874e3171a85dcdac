"""The demo's story: an agent and its naive twin are killed at the same moments, and what each did outside is counted."""
