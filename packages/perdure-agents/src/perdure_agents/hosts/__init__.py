"""Hosts of coding agents: their hooks (`events`, `answering`, `ingesting`) and their configuration (`configuring`, `plans`).

A host is a program in which an agent works: Claude Code, Codex, Cursor, Gemini CLI, opencode. Their differences stand in
`known`, one record a host. See docs/guide/coding-agents.md and decision 0046.
"""
