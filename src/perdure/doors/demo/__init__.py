"""The demo's story: an agent and its two twins on files are killed at the same moments, and what each did outside is counted."""
