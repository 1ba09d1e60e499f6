"""The OpenAI Agents SDK: a provider whose models fit every call of a run.

    Runner.run(agent, "…", run_config=RunConfig(model_provider=FovealProvider("fix-login", "agent.db", policy)))

The model is wrapped, and not the session: only there are the tools and the reply seen. Calls of Foveal's own tools are answered
inside, and the runner never hears of them. A run's items are those of OpenAI Responses for every model, and so the exchange is
the gateway's. An agent that is called as a tool begins with other words, and has a session of its own.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from agents import FunctionTool, ModelProvider, ModelResponse, MultiProvider, Tool
from agents import Model as AgentModel
from agents.items import TResponseStreamEvent
from agents.usage import Usage as RunUsage
from openai._models import construct_type  # pyright: ignore[reportPrivateImportUsage] - as its own streams are read
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent

from foveal.dialects.sse import SseEvent, sse_event
from foveal.integrations.client_request import ClientRequest
from foveal.integrations.exchange import MOST_ROUNDS, Exchange, begun
from foveal.integrations.followed_sessions import FollowedSessions, tell, tell_of_edits
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.stores.port import Store

_DIALECT = "openai_responses"
_PARAMETERS = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing")
_ELSEWHERE = ("previous_response_id", "conversation_id", "prompt")


class FovealProvider(ModelProvider):
    """Models of another provider, every call of which fits into the budget of a policy. `session` names the conversation."""

    def __init__(
        self,
        session: str,
        store: Store | str | Path = ":memory:",
        policy: Policy | None = None,
        inner: ModelProvider | None = None,
    ) -> None:
        self.session = session
        self.sessions = FollowedSessions(store, policy or Policy())
        self._inner = inner or MultiProvider()

    def get_model(self, model_name: str | None) -> AgentModel:
        """Return a model of the inner provider, fitted."""
        inner = self._inner.get_model(model_name)
        return _FittedModel(inner, self, str(getattr(inner, "model", None) or model_name))

    async def aclose(self) -> None:
        """Give the sessions back, and close the inner provider."""
        await anyio.to_thread.run_sync(self.sessions.close)
        await self._inner.aclose()


class _FittedModel(AgentModel):
    def __init__(self, inner: AgentModel, provider: FovealProvider, name: str) -> None:
        self._inner, self._provider, self._name = inner, provider, name

    def get_retry_advice(self, request: Any) -> Any:
        return self._inner.get_retry_advice(request)

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:
        asked = dict(zip(_PARAMETERS, given, strict=False)) | options
        async with self._fitted(asked) as exchange:
            if exchange is None:
                return await self._inner.get_response(**asked)
            spent = RunUsage()
            while True:
                response = await self._inner.get_response(**await _in_thread(exchange.sent))
                spent.add(response.usage)
                if not await _in_thread(exchange.take, response):
                    response.usage = spent
                    return response

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:
        asked = dict(zip(_PARAMETERS, given, strict=False)) | options
        async with self._fitted(asked) as exchange:
            is_over = False
            while not is_over:
                sent = await _in_thread(exchange.sent) if exchange else asked
                async for event in self._inner.stream_response(**sent):
                    for shown in exchange.feed(event) if exchange else (event,):
                        yield shown
                last, is_over = await _in_thread(exchange.end_round) if exchange else ((), True)
                for shown in last:
                    yield shown

    @asynccontextmanager
    async def _fitted(self, asked: dict[str, Any]) -> "AsyncGenerator[_ItemExchange | None]":
        """Yield the exchange of a call; None, with a warning, if it cannot be fitted."""
        provider, turn, exchange = self._provider, None, None
        given = asked["input"]
        items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        elsewhere = next((name for name in _ELSEWHERE if asked.get(name)), None)
        if elsewhere:
            tell(f"passed on as it came: {elsewhere} is set: the provider holds a part of the conversation")
        else:
            try:
                asks = {"model": self._name, "instructions": asked["system_instructions"], "tools": list(_specs(asked))}
                request = ClientRequest.read(_DIALECT, msgspec.json.encode({**asks, "input": items}))
                model = Model(self._name, _DIALECT)
                name = await _in_thread(provider.sessions.lane, provider.session, items, model)
                turn = await provider.sessions.free_turn_async(name, model)
                if turn:
                    first, body = await _in_thread(turn.begin, partial(begun, request))
                    if first.followed.outcome == "edited":
                        tell_of_edits(name, "edited")
                    exchange = _ItemExchange(asked, first, body)
            except Exception as error:  # of any kind: the run goes on
                tell(f"{provider.session} was passed on as it came: {type(error).__name__}: {error}")
        try:
            yield exchange
        finally:
            if turn:
                turn.end()


class _ItemExchange:
    """An exchange in the runner's own objects."""

    def __init__(self, asked: dict[str, Any], exchange: Exchange, body: bytes) -> None:
        self._asked, self._exchange, self._body, self._rounds = asked, exchange, body, 0

    def sent(self) -> dict[str, Any]:
        """Return the arguments of the call to make now."""
        body = msgspec.json.decode(self._exchange.body() if self._rounds else self._body)
        self._rounds += 1
        tools = [*self._asked["tools"], *map(_own_tool, self._exchange.own_tools)]
        return {**self._asked, "input": list(map(_plain, body["input"])), "tools": tools}

    def take(self, response: ModelResponse) -> bool:
        """Keep a reply, and leave of it what the runner sees. Return whether the model is to be asked again."""
        replies, usage = self._exchange.replies, response.usage
        output = [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in response.output]
        counted = {"cached_tokens": usage.input_tokens_details.cached_tokens}
        spent = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        body = {"object": "response", "status": "completed", "output": output}
        ended = replies.take({**body, "usage": {**spent, "input_tokens_details": counted}})
        self._exchange.keep(ended)
        if replies.body is not ended.body:
            response.output = _object(list[ResponseOutputItem], replies.body["output"])
        return ended.again and self._rounds < MOST_ROUNDS

    def feed(self, event: TResponseStreamEvent) -> list[TResponseStreamEvent]:
        """Return the events that the runner sees now."""
        told = sse_event(event.model_dump_json(exclude_unset=True).encode(), event.type)
        return [event if one is told else made for one in self._exchange.replies.feed(told) for made in _made([one])]

    def end_round(self) -> tuple[list[TResponseStreamEvent], bool]:
        """Keep the reply that ended. Return its last events, and whether it was the last reply."""
        ended = self._exchange.replies.end_round()
        self._exchange.keep(ended)
        is_over = not ended.again or self._rounds >= MOST_ROUNDS
        rest = self._exchange.replies.finish() if is_over and ended.again else []
        return _made([*ended.events, *rest]), is_over


def _made(events: Sequence[SseEvent]) -> list[TResponseStreamEvent]:
    return [_object(ResponseStreamEvent, msgspec.json.decode(one.data)) for one in events if one.data]


def _object(kind: Any, value: object) -> Any:
    """Return an object of the SDK, read as leniently as the SDK reads replies."""
    return construct_type(type_=kind, value=value)


def _specs(asked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the functions that the model may call. Tools of the provider itself are not counted."""
    tools = [one for one in asked["tools"] if isinstance(one, FunctionTool)]
    functions = [(one.name, one.description, one.params_json_schema) for one in tools]
    functions += [(one.tool_name, one.tool_description, one.input_json_schema) for one in asked["handoffs"]]
    for name, description, parameters in functions:
        yield {"type": "function", "name": name, "description": description, "parameters": parameters}


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with the words of a reply that Foveal writes as one text: models of the SDK for Chat read no other form."""
    if item.get("role") != "assistant" or "id" in item or isinstance(item.get("content"), str):
        return item
    return {"role": "assistant", "content": "\n\n".join(block.get("text", "") for block in item["content"])}


def _own_tool(spec: Mapping[str, Any]) -> Tool:
    async def unused(_context: Any, _arguments: str) -> str:
        raise AssertionError  # answered by the exchange

    return FunctionTool(spec["name"], spec["description"], dict(spec["parameters"]), unused, strict_json_schema=False)


async def _in_thread(act: Any, *given: Any) -> Any:
    return await anyio.to_thread.run_sync(act, *given)
