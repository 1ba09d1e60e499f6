"""Skills on disk, as the tests of the context have them; and models that answer by a function, without any network."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import pytest

import foveal
from foveal.agent import Agent, ModelChoice
from foveal.stores.port import Store
from foveal.values.errors import StoreCorrupt

from ..context.skills.conftest import put, root

__all__ = ["FakeModel", "agent_with", "calls", "collect", "damage", "put", "root", "says", "store"]


def says(text: str, *made: tuple[str, Mapping[str, Any]], tokens: int = 10) -> dict[str, Any]:
    """A reply in one event: a text, and calls of these tools."""
    called = [
        {"index": i, "id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for i, (name, given) in enumerate(made)
    ]
    delta = {"role": "assistant", "content": text or None, "tool_calls": called or None}
    choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls" if made else "stop"}
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    return {"id": "x", "model": "gpt-5", "choices": [choice], "usage": usage}


def calls(name: str, **given: Any) -> dict[str, Any]:
    """A reply that calls one tool."""
    return says("", (name, given))


class FakeModel:
    """A model port that answers with the next reply of a list, or by a function of the request. An exception is raised."""

    def __init__(self, *replies: Any, by: Callable[[Mapping[str, Any]], Any] | None = None) -> None:
        self.replies, self._by = list(replies), by
        self.requests: list[Mapping[str, Any]] = []

    async def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        self.requests.append(request)
        reply = self._by(request) if self._by else self.replies.pop(0)
        events: list[Any] = reply if isinstance(reply, list) else [reply]
        for one in events:
            if isinstance(one, BaseException):
                raise one
            if isinstance(one, asyncio.Event):
                one.set()
                await asyncio.Event().wait()
            else:
                yield one

    async def close(self) -> None: ...


def agent_with(model: FakeModel, *tools: Any, instructions: str = "You are careful.", **more: Any) -> Agent:
    """An agent whose models are all this one."""
    choice = ModelChoice("gpt-5", "openai")
    return Agent(instructions, model=choice, tools=tools, open_model=lambda _: model, **more)


async def collect(events: AsyncGenerator[Any, None]) -> list[Any]:
    return [event async for event in events]


def damage(store: Store, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the log of a session be damaged."""
    whole = store.rows

    def rows(session: str, **options: Any) -> Any:
        if session == name:
            raise StoreCorrupt(f"session {name}", "entry 2 is damaged", "memory")
        return whole(session, **options)

    monkeypatch.setattr(store, "rows", rows)


@pytest.fixture
def store():
    with foveal.open_store() as opened:
        yield opened
