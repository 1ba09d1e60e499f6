"""pydantic-ai: a capability that fits every model request of an agent.

    Agent(model, tools=[…], capabilities=[Foveal("agent.db", Policy(max_context_tokens=60_000))])

The run's own history stays whole. The work is done in a wrapper of the model and not in a hook: under Temporal, DBOS or Prefect
the wrapper runs inside the durable step, so that a replay never touches a session. A conversation is a session; an agent that
is called in a tool has a conversation of its own.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import anyio.to_thread
from pydantic_ai import RunContext
from pydantic_ai import messages as told
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model as AgentModel
from pydantic_ai.models import ModelRequestParameters as Parameters
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import FunctionToolset

from foveal.integrations.fitted_call import OWN, TOOLS, FittedCall, fitted_call, own_answer
from foveal.integrations.followed_sessions import CallTurn, FollowedSessions
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.stores.port import Store
from foveal.text.shorten.reference import as_text
from foveal.values.entry import File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult, Usage, result

_Messages: TypeAlias = list[told.ModelMessage]
_Native: TypeAlias = told.ModelRequestPart | told.ModelResponse
"""One message of a session: a part of a request, since one request holds several, or a whole response."""

_Call: TypeAlias = FittedCall[_Native] | None
_FOLLOWED = (told.ToolReturnPart, told.UserPromptPart, told.RetryFeedbackPart)


@dataclass
class Foveal(AbstractCapability[Any]):
    """Fits every model request of an agent into the budget of a policy. One instance serves many conversations."""

    store: Store | str | Path = ":memory:"
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        self.sessions = FollowedSessions(self.store, self.policy)

    def get_wrapper_model(self, model: AgentModel) -> AgentModel:
        """Return the model with its requests fitted."""
        return _FittedModel(model, self.sessions)

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return Foveal's own tools; requests offer them only while something is folded."""
        return FunctionToolset([self._tool(spec) for spec in TOOLS], id="foveal")

    def _tool(self, spec: Any) -> Tool[Any]:
        async def ask(ctx: RunContext[Any], **arguments: Any) -> str:
            name, store = ctx.conversation_id or "", self.sessions.store
            return await anyio.to_thread.run_sync(own_answer, store, name, spec["name"], arguments)

        return Tool.from_schema(ask, spec["name"], spec["description"], spec["parameters"], takes_ctx=True)


class _FittedModel(WrapperModel):
    def __init__(self, wrapped: AgentModel, sessions: FollowedSessions) -> None:
        super().__init__(wrapped)
        self._sessions = sessions

    async def request(
        self, messages: _Messages, model_settings: Any, model_request_parameters: Parameters
    ) -> told.ModelResponse:
        async with self._fitted(messages, model_settings, model_request_parameters) as (call, sent, parameters):
            response = await self.wrapped.request(sent, model_settings, parameters)
            if call:
                await anyio.to_thread.run_sync(_keep, call, response)
            return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: _Messages,
        model_settings: Any,
        model_request_parameters: Parameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        async with self._fitted(messages, model_settings, model_request_parameters) as (call, sent, parameters):
            async with self.wrapped.request_stream(sent, model_settings, parameters, run_context) as stream:
                yield stream
            if call:
                await anyio.to_thread.run_sync(_keep, call, stream.get())

    @asynccontextmanager
    async def _fitted(
        self, messages: _Messages, settings: Any, parameters: Parameters
    ) -> AsyncGenerator[tuple[_Call, _Messages, Parameters]]:
        """Yield the messages and the tools to send: those that fit, or without a call, the agent's own."""
        name = next((one.conversation_id for one in reversed(messages) if one.conversation_id), None)
        turn = await self._sessions.free_turn_async(name, Model(self.wrapped.model_name)) if name else None
        call = await anyio.to_thread.run_sync(_planned, turn, messages, settings, parameters) if turn else None
        own = call.own if call else frozenset[str]()
        tools = [tool for tool in parameters.function_tools if tool.name not in OWN or tool.name in own]
        try:
            yield call, _joined(call.shown, messages) if call else messages, replace(parameters, function_tools=tools)
        finally:
            if call:
                call.end()


def _planned(turn: CallTurn, messages: _Messages, settings: Any, parameters: Parameters) -> _Call:
    said = [part.content for one in messages for part in one.parts if isinstance(part, told.SystemPromptPart)]
    system = "\n\n".join([*said, *(part.content for part in parameters.instruction_parts or ())])
    given = [tool for tool in (*parameters.function_tools, *parameters.output_tools) if tool.name not in OWN]
    named = [(tool.name, tool.description or "", tool.parameters_json_schema) for tool in given]
    tools = [{"name": name, "description": words, "parameters": schema} for name, words, schema in named]
    most = settings.get("max_tokens") if settings else None
    return fitted_call(turn, list(_told(messages)), system=system, tools=tools, reply_tokens=most)


def _keep(call: FittedCall[_Native], response: told.ModelResponse) -> None:
    said = response.usage
    usage = Usage("", said.input_tokens, said.output_tokens, said.cache_read_tokens, said.cache_write_tokens)
    call.keep(_reply(response), usage if usage.input_tokens else None)


def _told(messages: Iterable[told.ModelMessage]) -> Iterator[tuple[Message, _Native]]:
    for message in messages:
        if isinstance(message, told.ModelResponse):
            yield _reply(message), message
            continue
        for part in message.parts:
            match part:
                case told.ToolReturnPart():
                    status = "ok" if part.outcome == "success" else "error"
                    yield result(part.tool_call_id, part.model_response_str(), status=status), part
                case told.UserPromptPart():
                    content = [part.content] if isinstance(part.content, str) else part.content
                    yield Message("user", tuple(map(_content, content))), part
                case _:
                    if isinstance(part, told.RetryFeedbackPart):
                        yield Message("user", (Text(str(part.content)),)), part


def _content(item: told.UserContent) -> Part:
    match item:
        case told.BinaryContent(data=data, media_type=kind):
            return Image(kind, data=data) if item.is_image else File(kind, item.identifier, data=data)
        case told.ImageUrl(url=url):
            return Image(item.media_type, url=url)
        case _:  # others are counted by their words, and sent as they are
            return Text(item if isinstance(item, str) else repr(item))


def _reply(response: told.ModelResponse) -> Message:
    parts: list[Part] = []
    for part in response.parts:
        if isinstance(part, told.TextPart):
            parts.append(Text(part.content))
        elif isinstance(part, told.ThinkingPart):
            parts.append(Thinking(part.content, part.signature))
        elif isinstance(part, told.ToolCallPart):
            parts.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str()))
    return Message("assistant", tuple(parts), response.model_name)


def _made(message: Message) -> Iterator[_Native]:
    """Yield the parts and responses that say a message of Foveal's."""
    texts = [one.text for one in message.parts if isinstance(one, Text)]
    if message.role == "assistant":
        calls = [
            told.ToolCallPart(one.name, one.arguments, one.id) for one in message.parts if isinstance(one, ToolCall)
        ]
        yield told.ModelResponse([*map(told.TextPart, texts), *calls])
        return
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield told.ToolReturnPart("tool", as_text(part.content), part.call)
    yield from map(told.UserPromptPart, texts)


def _joined(shown: Sequence[_Native | Message], messages: Sequence[told.ModelMessage]) -> _Messages:
    """Return parts in a row as one request. The last one is the agent's own but for its parts: it holds instructions and ids."""
    requests = (one for one in messages if isinstance(one, told.ModelRequest))
    lead = [part for one in requests for part in one.parts if not isinstance(part, _FOLLOWED)]
    joined: _Messages = [told.ModelRequest(lead)] if lead else []
    for native in (made for one in shown for made in (_made(one) if isinstance(one, Message) else (one,))):
        if isinstance(native, told.ModelResponse):
            joined.append(native)
        elif joined and isinstance(joined[-1], told.ModelRequest):
            joined[-1] = replace(joined[-1], parts=[*joined[-1].parts, native])
        else:
            joined.append(told.ModelRequest([native]))
    if isinstance(last := messages[-1], told.ModelRequest) and isinstance(joined[-1], told.ModelRequest):
        joined[-1] = replace(last, parts=joined[-1].parts)
    return joined
