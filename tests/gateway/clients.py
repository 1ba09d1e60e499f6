"""Clients of the gateway: a plain agent loop through each SDK, which sends its whole history with every call."""

import json
import warnings
from typing import Any

import pytest

from foveal.testing.provider import Call, ReceivedRequest, Turn
from foveal.testing.provider.server import Scripted

SYSTEM = "You are careful, and read every module."


def path_of(call: Call) -> str:
    arguments: Any = call.arguments
    return arguments["path"]


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LINES = 60
OPEN: list[Any] = []
"""The clients of a test."""


def contents_of(path: str) -> str:
    """Return the result of a call: long enough that forty of them fill any budget of the tests."""
    return f"module {path}\n" + "value = compute(1)  # a line of code\n" * LINES + f"end of {path}"


class AgentClient:
    """An agent on one SDK. `step` asks the model once and keeps its reply; `answer` adds the results of its calls."""

    dialect = ""
    model = ""

    def __init__(self, url: str, *, stream: bool, key: str = "k-1234567890", **more: Any) -> None:
        self.stream, self.more = stream, more
        self.list: list[dict[str, Any]] = []
        self.usage: list[int] = []
        self.client = self.connect(url, key)

    def connect(self, url: str, key: str) -> Any:
        """Return a client of the SDK. It is closed at the end of the test."""
        OPEN.append(self.make(url, key))
        return OPEN[-1]

    def make(self, url: str, key: str) -> Any:
        raise NotImplementedError

    def step(self) -> list[Call]:
        raise NotImplementedError

    def say(self, text: str) -> None:
        raise NotImplementedError

    def answer(self, calls: list[Call]) -> None:
        raise NotImplementedError

    def run(self, most: int = 100) -> int:
        """Go on until the model calls no more tools, and return the number of steps."""
        for number in range(1, most + 1):
            calls = self.step()
            assert all(call.name == "read" for call in calls), calls
            if not calls:
                return number
            self.answer(calls)
        raise AssertionError(f"the model was not done after {most} steps")


class AnthropicAgent(AgentClient):
    dialect, model = "anthropic", "claude-opus-4-5"

    def make(self, url: str, key: str) -> Any:
        anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")

        return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)

    def say(self, text: str) -> None:
        self.list.append({"role": "user", "content": text})

    def step(self) -> list[Call]:
        tools = [{"name": "read", "description": "Reads a file.", "input_schema": SCHEMA}]
        request = {"model": self.model, "max_tokens": 500, "system": SYSTEM, "messages": self.list, "tools": tools}
        request |= self.more
        if self.stream:
            with self.client.messages.stream(**request) as stream:
                reply = stream.get_final_message()
        else:
            reply = self.client.messages.create(**request)
        self.usage.append(reply.usage.input_tokens)
        self.list.append({"role": "assistant", "content": [b.model_dump(exclude_unset=True) for b in reply.content]})
        return [Call(b.id, b.name, b.input) for b in reply.content if b.type == "tool_use"]

    def answer(self, calls: list[Call]) -> None:
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": contents_of(path_of(c))} for c in calls]
        self.list.append({"role": "user", "content": results})


class ChatAgent(AgentClient):
    dialect, model = "openai_chat", "gpt-4.1"

    def make(self, url: str, key: str) -> Any:
        openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")

        return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def say(self, text: str) -> None:
        if not self.list:
            self.list.append({"role": "system", "content": SYSTEM})
        self.list.append({"role": "user", "content": text})

    def step(self) -> list[Call]:
        tools = [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}]
        request = {"model": self.model, "messages": self.list, "tools": tools, **self.more}
        if self.stream:
            with self.client.chat.completions.stream(**request) as stream:
                reply = stream.get_final_completion()
        else:
            reply = self.client.chat.completions.create(**request)
        if reply.usage:
            self.usage.append(reply.usage.prompt_tokens)
        message = reply.choices[0].message
        calls = message.tool_calls or []
        told: dict[str, Any] = {"role": "assistant", "content": message.content}
        if calls:
            told["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.function.name, "arguments": c.function.arguments},
                }
                for c in calls
            ]
        self.list.append(told)
        return [Call(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls]

    def answer(self, calls: list[Call]) -> None:
        self.list += [{"role": "tool", "tool_call_id": c.id, "content": contents_of(path_of(c))} for c in calls]


class ResponsesAgent(AgentClient):
    dialect, model = "openai_responses", "gpt-5"

    def make(self, url: str, key: str) -> Any:
        openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")

        return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def say(self, text: str) -> None:
        self.list.append({"role": "user", "content": text})

    def step(self) -> list[Call]:
        tools = [{"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": False}]
        request = {"model": self.model, "instructions": SYSTEM, "input": self.list, "tools": tools, "store": False}
        request |= self.more
        if self.stream:
            with self.client.responses.stream(**request) as stream:
                reply = stream.get_final_response()
        else:
            reply = self.client.responses.create(**request)
        self.usage.append(reply.usage.input_tokens)
        self.list += [
            item.model_dump(
                exclude_unset=True, exclude={"parsed_arguments": True, "content": {"__all__": {"parsed": True}}}
            )
            for item in reply.output
        ]
        return [Call(i.call_id, i.name, json.loads(i.arguments)) for i in reply.output if i.type == "function_call"]

    def answer(self, calls: list[Call]) -> None:
        self.list += [
            {"type": "function_call_output", "call_id": c.id, "output": contents_of(path_of(c))} for c in calls
        ]


class GeminiAgent(AgentClient):
    dialect, model = "gemini", "gemini-3-pro-preview"

    def make(self, url: str, key: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            genai = pytest.importorskip("google.genai", reason="the Gemini SDK is not installed")
        return genai.Client(api_key=key, http_options={"base_url": url})

    def say(self, text: str) -> None:
        self.list.append({"role": "user", "parts": [{"text": text}]})

    def step(self) -> list[Call]:
        declared = [{"name": "read", "description": "Reads.", "parameters_json_schema": SCHEMA}]
        config = {"system_instruction": SYSTEM, "tools": [{"function_declarations": declared}], **self.more}
        config["automatic_function_calling"] = {"disable": True}
        request = {"model": self.model, "contents": self.list, "config": config}
        models = self.client.models
        replies = (
            list(models.generate_content_stream(**request)) if self.stream else [models.generate_content(**request)]
        )
        counted = [reply.usage_metadata.prompt_token_count for reply in replies if reply.usage_metadata]
        self.usage.append(counted[-1])
        parts = [
            p
            for reply in replies
            for c in reply.candidates or ()
            for p in (c.content.parts if c.content else None) or ()
        ]
        told: list[dict[str, Any]] = []
        for part in (part.model_dump(exclude_none=True) for part in parts):
            if told and part.keys() == {"text"} == told[-1].keys():
                told[-1] = {"text": told[-1]["text"] + part["text"]}
            else:
                told.append(part)
        self.list.append({"role": "model", "parts": told})
        return [
            Call(p.function_call.id or "", p.function_call.name, p.function_call.args) for p in parts if p.function_call
        ]

    def answer(self, calls: list[Call]) -> None:
        parts = [
            {
                "function_response": {
                    **({"id": c.id} if c.id else {}),
                    "name": c.name,
                    "response": {"output": contents_of(path_of(c))},
                }
            }
            for c in calls
        ]
        self.list.append({"role": "user", "parts": parts})


AGENTS: dict[str, type[AgentClient]] = {
    one.dialect: one for one in (ChatAgent, ResponsesAgent, AnthropicAgent, GeminiAgent)
}


def tool_names(request: ReceivedRequest) -> list[str]:
    """Return the names of the tools of a request, in order."""
    names: list[str] = []
    for tool in request.body.get("tools", ()):
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        names += [one["name"] for one in declared] if declared else [(tool.get("function") or tool)["name"]]
    return names


class Reading:
    """A model that reads one file a step. Every `every`-th reply after a fold calls an own tool, alone or beside `read`."""

    def __init__(self, steps: int, *, every: int = 0, is_mixed: bool = False, thinks: bool = False) -> None:
        self.steps, self.every, self.is_mixed, self.thinks = steps, every, is_mixed, thinks
        self.replies = self.own = self.read = 0

    def __call__(self, request: ReceivedRequest) -> Scripted:
        self.replies += 1
        thinking = "Hm." if self.thinks and request.dialect in ("anthropic", "gemini", "openai_responses") else ""
        is_own = self.every and "search_context" in tool_names(request) and self.replies % self.every == 0
        if is_own:
            self.own += 1
            own = Call(f"own_{self.replies}", "search_context", {"query": "module m1.py"})
            if not self.is_mixed:
                return Turn("", (own,), thinking=thinking)
            self.read += 1
            return Turn("Both.", (own, self._call()), thinking=thinking)
        if self.read >= self.steps:
            return Turn("All modules were read.")
        self.read += 1
        return Turn(f"Step {self.read}.", (self._call(),), thinking=thinking)

    def _call(self) -> Call:
        return Call(f"call_{self.read}", "read", {"path": f"m{self.read}.py"})
