"""The log: changes, events, chains, folding. Knows no database; the stores keep what is defined here."""
