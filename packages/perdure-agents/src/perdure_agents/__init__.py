"""Perdure for coding agents: MCP, hooks, ready tools, importers."""

from perdure.model.siblings import check_fits

check_fits("perdure-agents", "0.1.0")
