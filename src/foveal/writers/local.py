"""A summariser in this process: a GGUF file and llama.cpp, no network and no key.

A small model forgets headings and wanders. So it is made to write JSON with one field a section, which the runtime enforces
while it writes, and code turns the JSON into the sections. It is slow without a GPU (about half a minute for a thousand tokens
of transcript on two cores), and meant to be asked ahead, in the background.
"""

import os
import secrets
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from foveal.summary.question import SECTIONS, Question, messages_of
from foveal.values.entry import Usage
from foveal.values.errors import BadInput, MissingExtra
from foveal.writers.faults import describe, fault_of
from foveal.writers.openai_chat import chat_reply
from foveal.writers.port import Reply, Unanswered

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {name.lower(): {"type": "array", "items": {"type": "string"}, "maxItems": 12} for name in SECTIONS},
    "required": [name.lower() for name in SECTIONS],
    "additionalProperties": False,
}


class LocalModel:
    """A summariser that loads its model at the first question and keeps it; one question at a time.

    The runtime has one context. `context_tokens` bounds question and answer together; a longer question is refused before it
    is read.
    """

    def __init__(self, path: str | Path, *, context_tokens: int = 8_192, threads: int | None = None) -> None:
        if find_spec("xllamacpp") is None:
            raise MissingExtra("A summariser in this process", "local")
        self.path = Path(path)
        if not self.path.is_file():
            raise BadInput(f"{self.path}: there is no such file; give the path of a model in GGUF form")
        self._context_tokens = context_tokens
        # With every core busy, the threads of the runtime wait for each other: leave one core to the program.
        self._threads = threads or max(1, (os.cpu_count() or 2) - 1)
        self._turn = threading.Lock()
        self._server: Any = None

    def __repr__(self) -> str:
        return f"LocalModel({str(self.path)!r})"

    def __call__(self, question: Question) -> Reply:
        asked = {
            "messages": [*messages_of(question)[:-1], _in_json(messages_of(question)[-1])],
            "max_tokens": question.tokens,
            "temperature": 0.1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "summary", "schema": _SCHEMA}},
        }
        with self._turn:
            self._server = self._server or self._loaded()
            try:
                body: dict[str, Any] = self._server.handle_chat_completions(asked)
            except RuntimeError as error:  # the runtime fails to parse its own JSON if that was cut off
                fault = "cut_off" if "does not match" in str(error) else fault_of(error)
                raise Unanswered(fault, f"The local model gave no answer: {describe(error)}") from None
        return _reply(body, self.path.stem)

    def _loaded(self) -> Any:
        import xllamacpp  # noqa: PLC0415 - an extra # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

        runtime: Any = xllamacpp
        wanted = runtime.CommonParams()
        wanted.model.path = str(self.path)
        wanted.n_ctx, wanted.n_parallel = self._context_tokens, 1
        wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = self._threads
        wanted.warmup, wanted.verbosity = False, -1
        # The runtime always listens on a port of this machine: the key, which is random, keeps others out.
        wanted.api_keys, wanted.ui, wanted.endpoint_slots = [secrets.token_urlsafe(32)], False, False
        return runtime.Server(wanted)


def _in_json(asked: dict[str, str]) -> dict[str, str]:
    fields = ", ".join(f'"{name.lower()}"' for name in SECTIONS)
    return asked | {
        "content": f"{asked['content']} Instead of headings, write one JSON object of lists of short texts: {fields}."
    }


def _reply(body: dict[str, Any], model: str) -> Reply:
    """Return the reply of the runtime, which answers in OpenAI's chat format or with an error object."""
    if "choices" not in body:
        error = RuntimeError(str(body.get("error") or body))
        raise Unanswered(fault_of(error), f"The local model gave no answer: {describe(error)}")
    reply = chat_reply(body)
    usage = msgspec.structs.replace(reply.usage, model=model) if reply.usage else None
    return Reply(sections_from(reply.text, usage), usage, cost_usd=0.0)


def sections_from(answer: str, usage: Usage | None = None) -> str:
    """Return the JSON object as headings with items."""
    try:
        fields = msgspec.json.decode(answer.encode("utf-8", "replace"), type=dict[str, list[str]])
    except msgspec.DecodeError as error:
        raise Unanswered(
            "cut_off", f"The local model's answer is not the JSON that was asked for: {error}", usage
        ) from None
    parts: list[str] = []
    for name in SECTIONS:
        items = dict.fromkeys(" ".join(item.split()) for item in fields.get(name.lower(), []))
        parts.append(f"## {name}\n" + ("\n".join(f"- {item}" for item in items if item) or "none"))
    return "\n".join(parts)
