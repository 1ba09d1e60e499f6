"""Small agents on the providers' own SDKs: four that loop over tools, and the tools of five clients under the clients' names."""

import json
import os
import subprocess
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")
anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")
with warnings.catch_warnings():  # its source warns when it is compiled for the first time
    warnings.simplefilter("ignore")
    genai = pytest.importorskip("google.genai", reason="the Gemini SDK is not installed")


class Tool(NamedTuple):
    """A tool of a client: its schema, and its work in a folder."""

    name: str
    schema: dict[str, Any] | None
    run: Callable[[Any, Path], str]
    """The schema is None for a tool that takes a text where the format has such tools."""


def _object(required: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    properties = {**required, **more}
    return {
        "type": "object",
        "properties": {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()},
        "required": list(required),
    }


def _reader(name: str, key: str) -> Tool:
    schema = _object({key: "string"}, offset="integer", limit="integer")
    return Tool(name, schema, lambda given, folder: (folder / given[key]).read_text())


def _shell(name: str, key: str, **more: Any) -> Tool:
    def run(given: Any, folder: Path) -> str:
        line = given[key] if isinstance(given[key], list) else ["bash", "-c", given[key]]
        own = {
            **os.environ,
            "HOME": str(folder),
        }  # a login shell reads no profile of this machine, which takes a tenth of a second
        done = subprocess.run(line, cwd=folder, env=own, capture_output=True, text=True, check=True)
        return done.stdout or "(nothing)"

    kind = more.pop("kind", "string")
    return Tool(name, _object({key: kind, **more}, workdir="string"), run)


def _editor(name: str, path: str, old: str, new: str, **more: Any) -> Tool:
    def run(given: Any, folder: Path) -> str:
        return _replace(folder / given[path], given[old], given[new])

    return Tool(name, _object({path: "string", old: "string", new: "string", **more}), run)


def _replace(file: Path, old: str, new: str) -> str:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return "edited"


def _edits(given: Any, folder: Path) -> str:
    return "".join(_replace(folder / given["path"], one["oldText"], one["newText"]) for one in given["edits"])


def _patch(given: Any, folder: Path) -> str:
    text = given if isinstance(given, str) else next(iter(given.values()))
    lines = text.split("\n")
    assert (lines[0], lines[2], lines[-1]) == ("*** Begin Patch", "@@", "*** End Patch")
    old, new = ("\n".join(line[1:] for line in lines[3:-1] if line[0] == sign) for sign in "-+")
    return _replace(folder / lines[1].removeprefix("*** Update File: "), old, new)


_EDITS = {
    "type": "array",
    "items": {"type": "object", "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}}},
}
_WORDS = {"type": "array", "items": {"type": "string"}}

CLIENTS: dict[str, list[Tool]] = {
    "claude": [
        _reader("Read", "file_path"),
        _shell("Bash", "command"),
        _editor("Edit", "file_path", "old_string", "new_string"),
    ],
    "codex": [_shell("exec_command", "cmd"), Tool("apply_patch", None, _patch)],
    "codex before": [_shell("shell", "command", kind=_WORDS)],
    "pi": [
        _reader("read", "path"),
        _shell("bash", "command"),
        Tool("edit", _object({"path": "string", "edits": _EDITS}), _edits),
    ],
    "opencode": [
        _reader("read", "filePath"),
        _shell("bash", "command", description="string"),
        _editor("edit", "filePath", "oldString", "newString"),
    ],
    "gemini": [
        _reader("read_file", "file_path"),
        _shell("run_shell_command", "command", description="string"),
        _editor("replace", "file_path", "old_string", "new_string", instruction="string"),
    ],
}

ASKED = "The sum is wrong. Mend it."


class Heard(NamedTuple):
    """A reply as the agent reads it."""

    text: str
    calls: list[tuple[str, str, Any]]
    """Ids, names and arguments."""


class ChatAgent:
    """Speaks OpenAI Chat."""

    model = "gpt-5"

    def __init__(self, url: str, tools: list[Tool], headers: Mapping[str, str] | None = None) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="a key", max_retries=0, default_headers=headers)
        self.tools = [self.offer(tool) for tool in tools]
        self.messages: list[Any] = []
        self.watch: Callable[[Any], object] = bool
        """Called with every reply of the SDK."""

    def offer(self, tool: Tool) -> dict[str, Any]:
        schema = tool.schema or _object({"input": "string"})
        return {"type": "function", "function": {"name": tool.name, "parameters": schema}}

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def ask(self, *, stream: bool = False) -> Heard:
        asked: dict[str, Any] = {"model": self.model, "messages": self.messages}
        asked |= {"tools": self.tools} if self.tools else {}
        if stream:
            with self.client.chat.completions.stream(**asked) as events:
                reply = events.get_final_completion()
        else:
            reply = self.client.chat.completions.create(**asked)
        self.watch(reply)
        said = reply.choices[0].message
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in said.tool_calls or ()
        ]
        self.messages.append({"role": "assistant", "content": said.content, **({"tool_calls": calls} if calls else {})})
        heard = [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]
        return Heard(said.content or "", heard)

    def tell(self, results: list[tuple[str, str, str]]) -> None:
        self.messages += [{"role": "tool", "tool_call_id": one, "content": text} for one, _, text in results]

    def close(self) -> None:
        self.client.close()


class ResponsesAgent(ChatAgent):
    """Speaks OpenAI Responses."""

    def offer(self, tool: Tool) -> dict[str, Any]:
        if tool.schema is None:
            return {"type": "custom", "name": tool.name, "format": {"type": "text"}}
        return {"type": "function", "name": tool.name, "parameters": tool.schema, "strict": False}

    def ask(self, *, stream: bool = False) -> Heard:
        asked: dict[str, Any] = {"model": self.model, "input": self.messages}
        asked |= {"tools": self.tools} if self.tools else {}
        if stream:
            with self.client.responses.stream(**asked) as events:
                reply = events.get_final_response()
        else:
            reply = self.client.responses.create(**asked)
        self.watch(reply)
        heard: list[tuple[str, str, Any]] = []
        for item in reply.output:
            if item.type == "message":
                self.messages.append({"role": "assistant", "content": item.content[0].text})
            elif item.type == "function_call":
                fields = {"type": item.type, "call_id": item.call_id, "name": item.name, "arguments": item.arguments}
                self.messages.append(fields)
                heard.append((item.call_id, item.name, json.loads(item.arguments)))
            elif item.type == "custom_tool_call":
                fields = {"type": item.type, "call_id": item.call_id, "name": item.name, "input": item.input}
                self.messages.append(fields)
                heard.append((item.call_id, item.name, item.input))
        return Heard(reply.output_text, heard)

    def tell(self, results: list[tuple[str, str, str]]) -> None:
        kinds = {item["call_id"]: item["type"] for item in self.messages if "call_id" in item}
        self.messages += [{"type": f"{kinds[one]}_output", "call_id": one, "output": text} for one, _, text in results]


class MessagesAgent:
    """Speaks Anthropic Messages."""

    model = "claude-opus-4-5"

    def __init__(self, url: str, tools: list[Tool], headers: Mapping[str, str] | None = None) -> None:
        self.client = anthropic.Anthropic(base_url=url, api_key="a key", max_retries=0, default_headers=headers)
        self.tools = [
            {"name": tool.name, "input_schema": tool.schema or _object({"input": "string"})} for tool in tools
        ]
        self.messages: list[Any] = []
        self.watch: Callable[[Any], object] = bool
        """Called with every reply of the SDK."""
        self.more: dict[str, Any] = {}

    def say(self, text: str) -> None:
        block = {"type": "text", "text": text}
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1] = {"role": "user", "content": [*self.messages[-1]["content"], block]}
        else:
            self.messages.append({"role": "user", "content": [block]})

    def ask(self, *, stream: bool = False) -> Heard:
        asked = {"model": self.model, "max_tokens": 4_000, "messages": self.messages, **self.more}
        asked |= {"tools": self.tools} if self.tools else {}
        if stream:
            with self.client.messages.stream(**asked) as events:
                reply = events.get_final_message()
        else:
            reply = self.client.messages.create(**asked)
        self.watch(reply)
        blocks: list[dict[str, Any]] = []
        for block in reply.content:
            if block.type == "text":
                blocks.append({"type": "text", "text": block.text})
            elif block.type == "tool_use":
                blocks.append({"type": "tool_use", "id": block.id, "name": block.name, "input": block.input})
        self.messages.append({"role": "assistant", "content": blocks})
        texts = "".join(block["text"] for block in blocks if block["type"] == "text")
        return Heard(texts, [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"])

    def tell(self, results: list[tuple[str, str, str]]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": one, "content": text} for one, _, text in results]
        self.messages.append({"role": "user", "content": blocks})

    def close(self) -> None:
        self.client.close()


class GeminiAgent:
    """Speaks Gemini."""

    model = "gemini-3-pro-preview"

    def __init__(self, url: str, tools: list[Tool], headers: Mapping[str, str] | None = None) -> None:
        self.client = genai.Client(api_key="a key", http_options={"base_url": url, "headers": dict(headers or {})})
        declared = [
            {"name": tool.name, "parameters_json_schema": tool.schema or _object({"input": "string"})} for tool in tools
        ]
        self.config: dict[str, Any] = {"tools": [{"function_declarations": declared}]} if declared else {}
        self.config["automatic_function_calling"] = {"disable": True}
        self.messages: list[Any] = []
        self.watch: Callable[[Any], object] = bool
        """Called with every reply of the SDK."""

    def say(self, text: str) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1] = {"role": "user", "parts": [*self.messages[-1]["parts"], {"text": text}]}
        else:
            self.messages.append({"role": "user", "parts": [{"text": text}]})

    def ask(self, *, stream: bool = False) -> Heard:
        asked = {"model": self.model, "contents": self.messages, "config": self.config}
        chunks = (
            list(self.client.models.generate_content_stream(**asked))
            if stream
            else [self.client.models.generate_content(**asked)]
        )
        self.watch(chunks[-1])
        parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
        texts = "".join(part.text for part in parts if part.text and not part.thought)
        said = [{"text": texts}] if texts else []
        called = [part.model_dump(exclude_none=True) for part in parts if part.function_call]
        self.messages.append({"role": "model", "parts": [*said, *called]})
        calls = [part.function_call for part in parts if part.function_call]
        return Heard(texts, [(call.id, call.name, call.args) for call in calls])

    def tell(self, results: list[tuple[str, str, str]]) -> None:
        parts = [
            {"function_response": {"id": one, "name": name, "response": {"output": text}}}
            for one, name, text in results
        ]
        self.messages.append({"role": "user", "parts": parts})

    def close(self) -> None:
        self.client.close()


AGENTS: dict[str, Callable[..., Any]] = {
    "openai_chat": ChatAgent,
    "openai_responses": ResponsesAgent,
    "anthropic": MessagesAgent,
    "gemini": GeminiAgent,
}


def work(agent: Any, tools: list[Tool], folder: Path, *, stream: bool = False) -> list[str]:
    """Ask and run tools until the model says something without a call; return the texts and the names of the calls."""
    known = {tool.name: tool for tool in tools}
    told: list[str] = []
    while True:
        heard = agent.ask(stream=stream)
        told += [heard.text] if heard.text else []
        told += [name for _, name, _ in heard.calls]
        if not heard.calls:
            return told
        agent.tell([(one, name, known[name].run(given, folder)) for one, name, given in heard.calls])
