"""Claude Agent SDK: transcripts that resume anywhere, and tools in the ledger.

ClaudeAgentOptions(session_store=PerdureSessionStore("sqlite:///agent.db"), session_store_flush="eager")
"""

from __future__ import annotations

from perdure_adapters.framework_versions import need

need("claude-agent-sdk", (0, 1, 65), (0, 3), "claude-agent")

from perdure_adapters.claude_agent.ledger import PerdureLedger  # noqa: E402 - after the framework is known to be there
from perdure_adapters.claude_agent.session_store import PerdureSessionStore  # noqa: E402 - as above
from perdure_adapters.forms.claude_lines import LINES  # noqa: E402 - as above

__all__ = ["LINES", "PerdureLedger", "PerdureSessionStore"]
