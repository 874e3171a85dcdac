"""Hosts of coding agents: hooks (`events`, `hook_answers`, `transcripts`) and configuration (`installation`, `plans`).

A host is a program in which an agent works: Claude Code, Codex, Cursor, Gemini CLI, opencode. Their differences stand in
`catalog`, one record a host. See docs/guide/coding-agents.md and decision 0046.
"""
