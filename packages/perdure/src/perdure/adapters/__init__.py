"""The adapters for other frameworks, which the package perdure-adapters brings: `perdure_adapters.langgraph` and others."""

from perdure.model.stand_ins import stand_in

stand_in(__name__, "perdure_adapters", "langgraph")
