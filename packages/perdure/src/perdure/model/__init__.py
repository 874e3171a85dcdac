"""Words: ids, instants, records, states, limits, values. Imports nothing of Perdure but the errors."""
