"""The demo's story: an agent and its twins on files die at the same moments, and their acts on the world are counted."""
