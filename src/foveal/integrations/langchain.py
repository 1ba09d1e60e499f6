"""LangChain, LangGraph and deepagents: a middleware that fits every model call of an agent.

    create_agent(model, tools, middleware=[FovealMiddleware("agent.db", Policy(max_context_tokens=60_000))])

The graph's state keeps the whole conversation, untouched; the model is shown the messages that fit. A thread is a session, and a
sub-agent has one of its own behind it. Give each sub-agent the same middleware.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import msgspec
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from foveal.dialects import find_dialect
from foveal.integrations.fitted_call import OWN, TOOLS, FittedCall, fitted_call, own_answer
from foveal.integrations.followed_sessions import CallTurn, FollowedSessions, tell
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.stores.port import Store
from foveal.values.entry import Content, Message, Part, Status, Text, ToolCall, ToolResult, Usage

_CHAT = find_dialect("openai_chat")


class FovealMiddleware(AgentMiddleware[Any, Any]):
    """Fits every model call of an agent into the budget of a policy. One instance serves many threads."""

    def __init__(self, store: Store | str | Path = ":memory:", policy: Policy | None = None) -> None:
        super().__init__()
        self.sessions = FollowedSessions(store, policy or Policy())
        self.tools: Sequence[BaseTool] = [self._tool(spec) for spec in TOOLS]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the messages that fit, and keep its reply."""
        name, model = _session_name(), Model(_model_name(request.model))
        turn = self.sessions.free_turn(name, model) if name else _no_thread()
        call = _fitted(turn, request) if turn else None
        if call is None:
            return handler(_without_own(request, frozenset()))
        try:
            response = handler(_smaller(request, call))
            _keep(call, response)
        finally:
            call.end()
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model with the messages that fit, and keep its reply; sessions are used in threads."""
        name, model = _session_name(), Model(_model_name(request.model))
        turn = await self.sessions.free_turn_async(name, model) if name else _no_thread()
        call = await anyio.to_thread.run_sync(_fitted, turn, request) if turn else None
        if call is None:
            return await handler(_without_own(request, frozenset()))
        try:
            response = await handler(_smaller(request, call))
            await anyio.to_thread.run_sync(_keep, call, response)
        finally:
            call.end()
        return response

    def _tool(self, spec: Any) -> BaseTool:
        def ask(**arguments: Any) -> str:
            return own_answer(self.sessions.store, _session_name(), spec["name"], arguments)

        return StructuredTool.from_function(
            ask, name=spec["name"], description=spec["description"], args_schema=spec["parameters"]
        )


def _session_name() -> str:
    """Return the thread and, inside a sub-agent, its place: `tools:<task>|model:<task>` is the model of the agent in a tool."""
    config = get_config().get("configurable", {})
    above = [place for place in str(config.get("checkpoint_ns", "")).split("|")[:-1] if place]
    thread = str(config.get("thread_id") or "")
    return "/".join([thread, *above]) if thread else ""


def _no_thread() -> None:
    tell("passed on as it came: no thread is named; invoke with config={'configurable': {'thread_id': …}}")


def _model_name(model: Any) -> str:
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)


def _fitted(turn: CallTurn, request: ModelRequest[Any]) -> FittedCall[BaseMessage] | None:
    system = request.system_message
    tools = [convert_to_openai_tool(tool) for tool in request.tools if _tool_name(tool) not in OWN]
    told = [(read_message(message), message) for message in request.messages]
    return fitted_call(turn, told, system=str(system.text) if system else "", tools=tools)


def _smaller(request: ModelRequest[Any], call: FittedCall[BaseMessage]) -> ModelRequest[Any]:
    messages = [made for one in call.shown for made in _made(one)]
    return _without_own(request.override(messages=cast("list[AnyMessage]", messages)), call.own)


def _without_own(request: ModelRequest[Any], offered: frozenset[str]) -> ModelRequest[Any]:
    """Return a request without those of Foveal's own tools that are not offered."""
    return request.override(
        tools=[tool for tool in request.tools if (name := _tool_name(tool)) not in OWN or name in offered]
    )


def _tool_name(tool: BaseTool | dict[str, Any]) -> str:
    return str(tool.get("function", tool).get("name", "")) if isinstance(tool, dict) else tool.name


def _keep(call: FittedCall[BaseMessage], response: ModelResponse[Any]) -> None:
    for message in response.result:
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        details = (usage or {}).get("input_token_details") or {}
        read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
        counted = Usage("", usage["input_tokens"], usage["output_tokens"], read, written) if usage else None
        call.keep(read_message(message), counted)


def read_message(message: BaseMessage) -> Message:
    """Return a message of LangChain as a message of a session."""
    match message:
        case AIMessage():
            texts = (Text(str(message.text)),) if message.text else ()
            calls = [ToolCall(one["id"] or "", one["name"], _json(one["args"])) for one in message.tool_calls]
            broken = [
                ToolCall(one["id"] or "", one["name"] or "", one["args"] or "") for one in message.invalid_tool_calls
            ]
            return Message("assistant", (*texts, *calls, *broken))
        case ToolMessage():
            status: Status = "error" if message.status == "error" else "ok"
            content = cast("tuple[Content, ...]", _content(message))
            return Message("tool", (ToolResult(message.tool_call_id, content, status),))
        case _:
            return Message("user" if isinstance(message, HumanMessage) else "system", _content(message))


def _content(message: BaseMessage) -> tuple[Part, ...]:
    """Return the content of a message that no model wrote: texts as they are, images and files as OpenAI's format has them."""
    if isinstance(message.content, str):
        return (Text(str(message.content)),)
    wire = convert_to_openai_messages(HumanMessage(message.content))
    (read,) = _CHAT.reader.request({"messages": [wire], "model": ""}).messages
    return read.parts


def _json(arguments: Any) -> str:
    return msgspec.json.encode(arguments).decode()


def _made(shown: Message | BaseMessage) -> list[BaseMessage]:
    """Return the messages of LangChain that say a message of Foveal's."""
    return [shown] if isinstance(shown, BaseMessage) else convert_to_messages(_CHAT.chunk((shown,)))
