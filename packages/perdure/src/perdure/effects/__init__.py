"""The ledger of what is done to the outside world: tools, the protocol, settlement, undo."""
