"""The names of spans and attributes: the GenAI conventions of OpenTelemetry as our own strings, and ours under `perdure.`.

The conventions moved to open-telemetry/semantic-conventions-genai, and no package has them as constants that are not
deprecated. These are the names that `opentelemetry-util-genai` 1.3b0 emits; a test compares them where it is installed.
"""

from __future__ import annotations

# -- the conventions -----------------------------------------------------------------------------------------------------

OPERATION = "gen_ai.operation.name"
INVOKE_WORKFLOW = "invoke_workflow"  # a run, from its start to its end
INVOKE_AGENT = "invoke_agent"  # one drive of a run
EXECUTE_TOOL = "execute_tool"  # an effect
CHAT = "chat"  # a step that calls a model

WORKFLOW_NAME = "gen_ai.workflow.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"  # only when content is asked for
TOOL_CALL_RESULT = "gen_ai.tool.call.result"  # as above
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
ERROR_TYPE = "error.type"

# -- our own -------------------------------------------------------------------------------------------------------------

STEP = "perdure.step"
WAIT = "perdure.wait"
RUN_ID = "perdure.run.id"
RUN_STATUS = "perdure.run.status"
RUN_REASON = "perdure.run.reason"
RUN_DEATHS = "perdure.run.deaths"
RUN_RECOVERED = "perdure.run.recovered"
LEASE_TOKEN = "perdure.lease.token"  # noqa: S105 - a number, no secret
EFFECT_STATE = "perdure.effect.state"
EFFECT_KIND = "perdure.effect.kind"
EFFECT_ATTEMPT = "perdure.effect.attempt"
EFFECT_SETTLED_BY = "perdure.effect.settled_by"
DOUBT = "perdure.doubt"
WAIT_STATE = "perdure.wait.state"
PLACE = "perdure.place"
SEQ = "perdure.seq"  # the event that says so: a reference instead of content, so that erasure reaches it
STORE = "perdure.store"
TENANT = "perdure.tenant"

# The names that models' answers use for their usage, and the attribute of each.
USAGE = {
    "input_tokens": INPUT_TOKENS,
    "prompt_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "cache_read_input_tokens": CACHE_READ_TOKENS,
    "cache_creation_input_tokens": CACHE_WRITE_TOKENS,
}
