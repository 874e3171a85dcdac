"""Google ADK: sessions, memories and artifacts that last, and tools that are called once.

store = perdure.open("sqlite:///agent.db")
Runner(app_name="shop", agent=agent, session_service=PerdureSessionService(store), plugins=[PerdurePlugin(store)])
"""

from __future__ import annotations

from perdure_adapters.framework_versions import need

need("google-adk", (2, 13), (3,), "google-adk")

from perdure_adapters.google_adk.artifacts import PerdureArtifactService  # noqa: E402 - after it is known to be there
from perdure_adapters.google_adk.memories import PerdureMemoryService  # noqa: E402 - as above
from perdure_adapters.google_adk.plugin import PerdurePlugin  # noqa: E402 - as above
from perdure_adapters.google_adk.sessions import PerdureSessionService  # noqa: E402 - as above

__all__ = ["PerdureArtifactService", "PerdureMemoryService", "PerdurePlugin", "PerdureSessionService"]
