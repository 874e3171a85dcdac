"""How much of what a task needs is in a boot of a budget, on labelled coding histories of our own."""
