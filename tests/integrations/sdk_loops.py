"""Hand-written agents over the SDKs of OpenAI and Anthropic: loops that hold their lists themselves."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai

import foveal

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
DELEGATE = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}


class ChatLoop:
    """OpenAI Chat Completions."""

    def __init__(self, url: str, **options) -> None:
        plain: dict[str, Any] = {"base_url": f"{url}/v1", "api_key": "any"}
        self.client = foveal.wrap(openai.OpenAI(**plain), **options)
        self.waiting = foveal.wrap(openai.AsyncOpenAI(**plain), **options)
        self.runner = asyncio.Runner()

    def close(self):
        self.client.close()
        self.runner.run(self.waiting.close())
        self.runner.close()

    @staticmethod
    def tools(names):
        schemas = {"read_file": SCHEMA, "delegate": DELEGATE}
        return [{"type": "function", "function": {"name": name, "parameters": schemas[name]}} for name in names]

    def ask(self, messages, names, mode):
        asked: dict[str, Any] = {"model": "gpt-5", "messages": messages, "tools": self.tools(names)}
        if mode == "plain":
            reply = self.client.chat.completions.create(**asked)
        elif mode == "raw":
            reply = self.client.chat.completions.with_raw_response.create(**asked).parse()
        elif mode == "stream":
            with self.client.chat.completions.stream(**asked) as stream:
                reply = stream.get_final_completion()
        else:
            reply = self.runner.run(self._ask_async(asked, mode))
        said = reply.choices[0].message
        messages.append(said.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in messages[-1].get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
        return said.content, [(one.id, one.function.name, one.function.arguments) for one in said.tool_calls or ()]

    async def _ask_async(self, asked, mode):
        client = self.waiting
        if mode == "async":
            return await client.chat.completions.create(**asked)
        async with client.chat.completions.stream(**asked) as stream:
            return await stream.get_final_completion()

    @staticmethod
    def result(call, text):
        return [{"role": "tool", "tool_call_id": call, "content": text}]


class ResponsesLoop(ChatLoop):
    """OpenAI Responses, without state at the provider."""

    @staticmethod
    def tools(names):
        return [
            {"type": "function", "name": name, "parameters": {"read_file": SCHEMA, "delegate": DELEGATE}[name]}
            for name in names
        ]

    def ask(self, messages, names, mode):
        asked: dict[str, Any] = {"model": "gpt-5", "input": messages, "tools": self.tools(names), "store": False}
        if mode == "plain":
            reply = self.client.responses.create(**asked)
        elif mode == "stream":
            with self.client.responses.stream(**asked) as stream:
                reply = stream.get_final_response()
        else:
            reply = self.runner.run(self._ask_async(asked, mode))
        messages += [json.loads(item.model_dump_json(exclude_none=True)) for item in reply.output]
        for item in messages:
            item.pop("parsed_arguments", None)
            for block in item.get("content", ()) if isinstance(item.get("content"), list) else ():
                block.pop("parsed", None)
        calls = [(one.call_id, one.name, one.arguments) for one in reply.output if one.type == "function_call"]
        return reply.output_text, calls

    async def _ask_async(self, asked, mode):
        if mode == "async":
            return await self.waiting.responses.create(**asked)
        async with self.waiting.responses.stream(**asked) as stream:
            return await stream.get_final_response()

    @staticmethod
    def result(call, text):
        return [{"type": "function_call_output", "call_id": call, "output": text}]


class AnthropicLoop(ChatLoop):
    """Anthropic Messages."""

    def __init__(self, url: str, **options) -> None:
        plain: dict[str, Any] = {"base_url": url, "api_key": "any"}
        self.client = foveal.wrap(anthropic.Anthropic(**plain), **options)
        self.waiting = foveal.wrap(anthropic.AsyncAnthropic(**plain), **options)
        self.runner = asyncio.Runner()

    @staticmethod
    def tools(names):
        return [{"name": name, "input_schema": {"read_file": SCHEMA, "delegate": DELEGATE}[name]} for name in names]

    def ask(self, messages, names, mode):
        asked: dict[str, Any] = {
            "model": "claude-opus-4-8",
            "max_tokens": 1000,
            "messages": messages,
            "tools": self.tools(names),
        }
        asked["system"] = [{"type": "text", "text": "Be careful.", "cache_control": {"type": "ephemeral"}}]
        asked["cache_control"] = {"type": "ephemeral"}
        if mode == "plain":
            reply = self.client.messages.create(**asked)
        elif mode == "stream":
            with self.client.messages.stream(**asked) as stream:
                reply = stream.get_final_message()
        else:
            reply = self.runner.run(self._ask_async(asked, mode))
        content = [json.loads(block.model_dump_json(exclude_none=True)) for block in reply.content]
        messages.append({"role": "assistant", "content": content})
        texts = [block.text for block in reply.content if block.type == "text"]
        calls = [(one.id, one.name, json.dumps(one.input)) for one in reply.content if one.type == "tool_use"]
        return "".join(texts), calls

    async def _ask_async(self, asked, mode):
        if mode == "async":
            return await self.waiting.messages.create(**asked)
        async with self.waiting.messages.stream(**asked) as stream:
            return await stream.get_final_message()

    @staticmethod
    def result(call, text):
        return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}]


def run_loop(loop: ChatLoop, messages: list, tools: dict[str, Callable[..., str]], mode: str) -> Any:
    """Ask and run tools until the model calls none, and return its last words."""
    while True:
        said, calls = loop.ask(messages, list(tools), mode)
        if not calls:
            return said
        for call, name, arguments in calls:
            messages += loop.result(call, tools[name](**json.loads(arguments)))
