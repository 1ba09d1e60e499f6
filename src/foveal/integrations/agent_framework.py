"""Microsoft's Agent Framework: a context provider whose chat middleware fits every model call of an agent.

    Agent(client=client, tools=[…], context_providers=[FovealContext("agent.db", Policy(max_context_tokens=60_000))])

The history of a session stays whole. A provider, and not a middleware alone, since only a provider can give an agent tools:
recall is among them. It hands each run a middleware and tools of its own, which know the session of the run.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import msgspec
from agent_framework import (
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    ContextProvider,
    FunctionTool,
    ResponseStream,
    SessionContext,
)
from agent_framework import Message as AgentMessage

from foveal.dialects.media import file_of_data, image_of_url
from foveal.integrations.fitted_call import OWN, TOOLS, FittedCall, fitted_call, own_answer
from foveal.integrations.followed_sessions import CallTurn, FollowedSessions, tell
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.stores.port import Store
from foveal.text.shorten.reference import as_text
from foveal.values.entry import Message, Part, Text, Thinking, ToolCall, ToolResult, Usage
from foveal.values.errors import FovealError

_Next = Callable[[], Awaitable[None]]
_Told = list[tuple[Message, AgentMessage]]


class FovealContext(ContextProvider):
    """Fits every model call of an agent into the budget of a policy. One instance serves many sessions."""

    def __init__(self, store: Store | str | Path = ":memory:", policy: Policy | None = None) -> None:
        super().__init__("foveal")
        self.sessions = FollowedSessions(store, policy or Policy())

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Give a run the middleware that fits its calls, and Foveal's own tools; calls offer these while something is folded."""
        if getattr(agent, "require_per_service_call_history_persistence", False):
            tell(
                f"{session.session_id} is passed on as it comes: with require_per_service_call_history_persistence, "
                "the history is loaded below every middleware; leave it out"
            )
            return
        run = _FittedRun(self.sessions, session.session_id)
        context.extend_middleware(self.source_id, run)
        context.extend_tools(self.source_id, [run.tool(spec) for spec in TOOLS])


class _FittedRun(ChatMiddleware):
    """The model calls of one run, and its own tools. An agent that shares the session of another has one behind it."""

    def __init__(self, sessions: FollowedSessions, name: str) -> None:
        self._sessions, self._name, self._lane = sessions, name, name

    def tool(self, spec: Mapping[str, Any]) -> FunctionTool:
        async def ask(**arguments: Any) -> str:
            return await anyio.to_thread.run_sync(own_answer, self._sessions.store, self._lane, spec["name"], arguments)

        return FunctionTool(
            name=spec["name"], description=spec["description"], func=ask, input_model=spec["parameters"]
        )

    async def process(self, context: ChatContext, call_next: _Next) -> None:
        """Call the model with the messages that fit, and keep its reply."""
        options = dict(context.options or {})
        call = await self._fitted(context, options)
        given, own = cast("list[Any]", options.get("tools") or []), call.own if call else frozenset[str]()
        context.options = options | {"tools": [one for one in given if (name := _name(one)) not in OWN or name in own]}
        if call is None:
            return await call_next()
        context.messages = [one if isinstance(one, AgentMessage) else _made(one) for one in call.shown]
        is_over = True
        try:
            await call_next()
            if isinstance(context.result, ResponseStream):
                context.result, is_over = _followed(call, context.result), False
            elif context.result:
                await anyio.to_thread.run_sync(_keep, call, context.result)
        finally:
            if is_over:
                call.end()
        return None

    async def _fitted(self, context: ChatContext, options: Mapping[str, Any]) -> FittedCall[AgentMessage] | None:
        """Return the call for a list; None, with a warning, if it cannot be fitted."""
        stored = options.get("store")
        is_elsewhere = getattr(context.client, "STORES_BY_DEFAULT", False) if stored is None else stored
        if is_elsewhere or options.get("conversation_id"):
            return tell(
                f"{self._name} was passed on as it came: the provider holds the conversation; set store=False in the "
                "options of the agent"
            )
        model = Model(str(options.get("model") or getattr(context.client, "model", "")))
        try:
            told = [pair for message in context.messages for pair in _read(message)]
            listed = [message for message, _ in told]
            self._lane = await anyio.to_thread.run_sync(self._sessions.lane, self._name, listed, model)
            turn = await self._sessions.free_turn_async(self._lane, model)
        except FovealError as error:  # the run goes on
            return tell(f"{self._name} was passed on as it came: {type(error).__name__}: {error}")
        return await anyio.to_thread.run_sync(_planned, turn, told, options) if turn else None


def _planned(turn: CallTurn, told: _Told, options: Mapping[str, Any]) -> FittedCall[AgentMessage] | None:
    tools = [one for one in options.get("tools") or () if isinstance(one, FunctionTool) and one.name not in OWN]
    specs = [one.to_json_schema_spec() for one in tools]
    system, most = options.get("instructions"), options.get("max_tokens")
    words = system if isinstance(system, str) or system is None else "\n".join(system)
    return fitted_call(turn, told, system=words, tools=specs, reply_tokens=most)


def _followed(call: FittedCall[AgentMessage], stream: Any) -> ResponseStream[Any, Any]:
    """Return a stream whose reply is kept at its end."""

    async def updates() -> AsyncGenerator[Any]:
        try:
            async for update in stream:
                yield update
            await anyio.to_thread.run_sync(_keep, call, await stream.get_final_response())
        finally:
            call.end()

    return ResponseStream(updates(), finalizer=lambda _: stream.get_final_response())


def _keep(call: FittedCall[AgentMessage], response: ChatResponse[Any]) -> None:
    said = cast("dict[str, int | None]", response.usage_details or {})
    counts = [
        said.get(f"{kind}_token_count") or 0 for kind in ("input", "output", "cache_read_input", "cache_creation_input")
    ]
    usage = Usage("", *counts) if counts[0] else None
    replies = [pair for message in response.messages for pair in _read(message)]
    for number, (reply, _) in enumerate(replies, 1):
        call.keep(reply, usage if number == len(replies) else None)


def _read(message: AgentMessage) -> Iterator[tuple[Message, AgentMessage]]:
    """Yield the messages of a session that a message of the framework holds: one for each result, or one for all of it."""
    results = [one for one in message.contents if one.type == "function_result"]
    for one in results:
        status = "error" if one.exception else "ok"
        content: Any = tuple(map(_part, one.items or [Content.from_text(str(one.result or ""))]))
        native = message if len(message.contents) == 1 else AgentMessage("tool", [one])
        yield Message("tool", (ToolResult(one.call_id or "", content, status),)), native
    if not results:
        role: Any = message.role if message.role in {"assistant", "system"} else "user"
        yield Message(role, tuple(map(_part, message.contents))), message


def _part(content: Content) -> Part:
    kind, data = content.media_type or "", content.uri or ""
    match content.type:
        case "text":
            return Text(content.text or "")
        case "text_reasoning":
            return Thinking(content.text or "", content.protected_data)
        case "function_call":
            said = content.arguments
            arguments = said if isinstance(said, str) else msgspec.json.encode(said or {}).decode()
            return ToolCall(content.call_id or "", content.name or "", arguments)
        case "uri" | "data" if kind.startswith("image/"):
            return image_of_url(data)
        case "data" if file := file_of_data(data, "file"):
            return file
        case _:  # others are counted by their words, and sent as they are
            return Text(str(content.to_dict()))


def _made(message: Message) -> AgentMessage:
    """Return the message of the framework that says a message of Foveal's."""
    contents: list[Content] = []
    for part in message.parts:
        if isinstance(part, Text):
            contents.append(Content.from_text(part.text))
        elif isinstance(part, ToolCall):
            contents.append(Content.from_function_call(part.id, part.name, arguments=part.arguments))
        elif isinstance(part, ToolResult):
            contents.append(Content.from_function_result(part.call, result=as_text(part.content)))
    return AgentMessage(message.role, contents)


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", ""))
