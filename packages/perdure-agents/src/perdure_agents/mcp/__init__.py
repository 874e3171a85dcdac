"""The coding agent's own door: tools, resources and prompts over the Model Context Protocol (extra `mcp`).

`server` puts it together, `door` holds the open store, `tools`, `effects` and `questions` translate calls into verbs, `answers`
are what they give back. Nothing outside this package imports it, or `mcp`, before `perdure mcp` is called. See decision 0045.
"""
