"""One line to each provider: its own SDK client, and how a host reads calls from its replies."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foveal import Prompt, Session
from foveal.session.options import Model
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.judge import gemini_arguments
from foveal.testing.provider.replies import Call


@dataclass(frozen=True)
class Line:
    """`model` and `sibling` are two models of one provider that cannot read each other's signatures."""

    dialect: str
    model: str
    sibling: str
    ask: Callable[..., Any]
    calls: Callable[[Any], list[Call]]
    thinks: dict[str, Any]
    """What a host adds to a request so that the model thinks."""

    def session(self, store: Any, **more: Any) -> Session:
        model = Model(more.pop("model", self.model), self.dialect)
        return Session(store, more.pop("name", "wire"), model=model, **more)

    def send(self, provider: ScriptedProvider, session: Session, tools: Any = (), **more: Any) -> tuple[Prompt, Any]:
        """One call of the loop: what was asked is what arrived, and the reply is kept as the SDK returned it."""
        prompt = session.prompt(tools)
        provider.counted = prompt.tokens
        reply = self.ask(**(prompt.request | more))
        assert provider.last.arguments == on_the_wire(prompt.request) | more
        session.append(reply)
        return prompt, reply


def on_the_wire(request: dict[str, Any]) -> dict[str, Any]:
    """The request after JSON. For Gemini, images go as bytes: the SDK takes both spellings and sends one."""
    if "contents" in request:
        config = request["config"]
        body: dict[str, Any] = {"contents": request["contents"]}
        if "tools" in config:
            body["tools"] = config["tools"]
        if "system_instruction" in config:
            body["systemInstruction"] = {"parts": [{"text": config["system_instruction"]}]}
        return gemini_arguments(request["model"], _texts(body))
    return json.loads(json.dumps(request))


def _texts(value: Any) -> Any:
    """Bytes as the base64 text that they travel as."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def read_calls(prefix: str, number: int) -> tuple[Call, ...]:
    """Parallel calls of one reply."""
    return tuple(Call(f"{prefix}_{i}", arguments={"path": f"{prefix}/{i}.py"}) for i in range(number))


def chat_calls(reply: Any) -> list[Call]:
    calls = reply.choices[0].message.tool_calls or []
    return [Call(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls]


def responses_calls(reply: Any) -> list[Call]:
    items = [item for item in reply.output if item.type == "function_call"]
    return [Call(item.call_id, item.name, json.loads(item.arguments)) for item in items]


def anthropic_calls(reply: Any) -> list[Call]:
    return [Call(block.id, block.name, block.input) for block in reply.content if block.type == "tool_use"]


def gemini_calls(reply: Any) -> list[Call]:
    return [Call(call.id or "", call.name, call.args) for call in reply.function_calls or []]
