"""LiteLLM, as a library and as a proxy: a callback that fits every asynchronous chat completion of a named session.

    litellm.callbacks = [FovealCallback("agent.db", Policy(max_context_tokens=60_000))]
    await litellm.acompletion(model="openai/gpt-5", messages=messages, tools=tools, litellm_session_id="fix-login")

LiteLLM speaks OpenAI's Chat format with every provider, and so the exchange is the gateway's. Recall is one of LiteLLM's agentic
loops: after a reply that calls nothing but Foveal's own tools, LiteLLM itself asks the model again.
"""

# pyright: basic, reportMissingImports=false

import asyncio
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.integrations.custom_logger import (
    HEADROOM_CONVERTED_STREAM_KEY,
    AgenticLoopPlan,
    AgenticLoopRequestPatch,
)
from litellm.types.utils import CallTypes, ModelResponse

from foveal.dialects.port import Wire
from foveal.integrations.client_request import ClientRequest
from foveal.integrations.exchange import MOST_ROUNDS, Exchange, begun
from foveal.integrations.followed_sessions import CallTurn, FollowedSessions, tell
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.stores.port import Store

_DIALECT = "openai_chat"
_BODY = ("messages", "tools", "max_tokens", "max_completion_tokens")
_KEY_CHARS = 8


class FovealCallback(CustomLogger):
    """Fits chat completions into the budget of a policy. One instance serves all sessions."""

    def __init__(self, store: Store | str | Path = ":memory:", policy: Policy | None = None) -> None:
        super().__init__()
        self.sessions = FollowedSessions(store, policy or Policy())
        self._open: dict[str, _OpenCall] = {}
        """Calls that wait for their last reply, by LiteLLM's ids."""

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: CallTypes | None
    ) -> dict[str, Any] | None:
        """Return the arguments of a call that fits; None if they stay as they are."""
        is_within = kwargs.get("_agentic_loop_depth") or kwargs.get("fallbacks")  # a fallback is a call of its own
        if call_type != CallTypes.acompletion or is_within:
            return None
        name = _session_name(kwargs)
        if not name or "messages" not in kwargs:
            lacks = "messages by their keyword" if name else "a session; pass litellm_session_id"
            return tell(f"a completion was passed on as it came: it does not name {lacks}")
        call = await self._fitted(name, kwargs)
        if call is None:
            return None
        changed = call.changes()
        if kwargs.get("stream") and not call.exchange.own_tools:
            call.end()  # the stream is the caller's at once, and its reply is told with the next list
        elif kwargs.get("stream"):
            # An agentic loop needs whole replies; LiteLLM makes a stream of the last one.
            changed |= {"stream": False, HEADROOM_CONVERTED_STREAM_KEY: True}
        return {**kwargs, **changed, "max_agentic_loops": MOST_ROUNDS}

    async def async_should_run_agentic_loop(
        self, response: Any, *given: Any, kwargs: Mapping[str, Any], **options: Any
    ) -> tuple[bool, dict[str, Any]]:
        """Keep a reply, and return whether the model waits for the answers to own calls, and for nothing else."""
        call = self._open.get(str(kwargs.get("litellm_call_id")))
        is_again = bool(call and isinstance(response, ModelResponse) and await _in_thread(call.take, response))
        return is_again, {"round": len(call.exchange.replies.rounds) if call else 0}

    async def async_build_agentic_loop_plan(
        self, *given: Any, kwargs: Mapping[str, Any], **options: Any
    ) -> AgenticLoopPlan:
        """Return the request with the answers to own calls."""
        call = self._open[str(kwargs.get("litellm_call_id"))]
        body = msgspec.json.decode(await _in_thread(call.exchange.body))
        asked = options.get("anthropic_messages_optional_request_params") or {}  # of any provider, in spite of its name
        chosen = {"tool_choice": asked["tool_choice"]} if "tool_choice" in asked else {}
        patch = AgenticLoopRequestPatch(messages=body["messages"], tools=body.get("tools"), optional_params=chosen)
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)

    async def async_post_call_success_deployment_hook(
        self, request_data: dict[str, Any], response: Any, call_type: CallTypes | None
    ) -> Any:
        """Return the reply that the caller sees, without the calls of own tools."""
        call = self._ended(request_data)
        return call.shown(response) if call else None

    async def async_post_call_failure_deployment_hook(self, request_data: Any, *given: Any, **options: Any) -> None:
        """Let the next call have the session."""
        self._ended(request_data)

    def _ended(self, asked: Mapping[str, Any]) -> "_OpenCall | None":
        """Return the call that is over with these arguments; None for a round within one, and for calls that are not fitted."""
        call = None if asked.get("_agentic_loop_depth") else self._open.get(str(asked.get("litellm_call_id")))
        if call:
            call.end()
        return call

    async def _fitted(self, name: str, kwargs: Mapping[str, Any]) -> "_OpenCall | None":
        """Return the call for these arguments; None, with a warning, if it cannot be fitted."""
        turn, model = None, Model(str(kwargs["model"]).rpartition("/")[2], _DIALECT)
        try:
            messages = [_plain(message) for message in kwargs["messages"]]
            told = {key: kwargs[key] for key in _BODY if kwargs.get(key)} | {"model": model.id, "messages": messages}
            request = ClientRequest.read(_DIALECT, msgspec.json.encode(told))
            lane = await _in_thread(self.sessions.lane, name, messages, model)
            task = asyncio.current_task()
            for one in [one for one in self._open.values() if one.is_left_by(task, lane)]:
                one.end()
            turn = await self.sessions.free_turn_async(lane, model)
            if turn is None:
                return None
            first = await _in_thread(turn.begin, partial(begun, request))
        except Exception as error:  # of any kind: the call goes on
            if turn:
                turn.end()
            return tell(f"{name} was passed on as it came: {type(error).__name__}: {error}")
        return _OpenCall(self._open, str(kwargs.get("litellm_call_id")), turn, request, first)


class _OpenCall:
    """A completion between its request and its last reply. It has the turn of its session until `end`."""

    def __init__(
        self,
        opened: "dict[str, _OpenCall]",
        key: str,
        turn: CallTurn,
        request: ClientRequest,
        first: tuple[Exchange, bytes],
    ) -> None:
        self._opened, self._key, self._turn, self._request = opened, key, turn, request
        self.exchange, self._body = first
        self._task = asyncio.current_task()
        opened[key] = self
        if self._task:
            self._task.add_done_callback(self.end)  # of a cancelled call, LiteLLM tells nobody

    def is_left_by(self, task: "asyncio.Task[Any] | None", session: str) -> bool:
        """Return whether a task that asks in a session has given this call up, as after a timeout."""
        return self._task is task and self._turn.name == session

    def changes(self) -> dict[str, Any]:
        """Return the arguments of the first request that differ from the caller's."""
        body = {} if self._body is self._request.raw else msgspec.json.decode(self._body)
        return {key: body[key] for key in ("messages", "tools") if key in body}

    def take(self, response: ModelResponse) -> bool:
        """Keep a reply, and return whether the model is to be asked again."""
        try:
            ended = self.exchange.replies.take(response.model_dump(exclude_none=True))
            self.exchange.keep(ended)
        except Exception as error:  # the caller has its reply all the same, and tells it with its next list
            tell(f"{self._turn.name}: the reply was not kept: {type(error).__name__}: {error}")
            return False
        return ended.again and len(self.exchange.replies.rounds) < MOST_ROUNDS

    def shown(self, response: ModelResponse) -> ModelResponse:
        """Return a reply without the calls of own tools, and with the words of the rounds before it."""
        rounds = self.exchange.replies.rounds
        body = self.exchange.replies.body if rounds else None
        return response if body is None or body is rounds[-1].body else ModelResponse(**body)

    def end(self, _task: object = None) -> None:
        """Let the next call have the session."""
        self._turn.end()
        if self._opened.get(self._key) is self:
            del self._opened[self._key]
        if self._task:
            self._task.remove_done_callback(self.end)


def _session_name(kwargs: Mapping[str, Any]) -> str:
    """Return the session that a call names. Those of the proxy's users are apart: one key never has the session of another."""
    told: list[Mapping[str, Any]] = [kwargs.get(key) or {} for key in ("metadata", "litellm_metadata")]
    name = kwargs.get("litellm_session_id") or next((one["session_id"] for one in told if one.get("session_id")), "")
    key = next((one["user_api_key"] for one in told if one.get("user_api_key")), None)
    user = f"{hashlib.sha256(str(key).encode()).hexdigest()[:_KEY_CHARS]}/" if key else ""
    return f"{user}{name}" if name else ""


def _plain(message: Any) -> Wire:
    """Return a message of a list as JSON has it: callers put LiteLLM's own objects into it as well."""
    return message if isinstance(message, dict) else message.model_dump(exclude_none=True)


async def _in_thread(act: Any, *given: Any) -> Any:
    return await anyio.to_thread.run_sync(act, *given)
