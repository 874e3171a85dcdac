"""Perdure for coding agents: MCP, hooks, ready tools, importers."""
