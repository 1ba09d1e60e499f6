"""Recorded prompt injections (AgentDojo), and where their words turn up.

The recordings are not part of the repository; they are read from `../shared/data` where that is there. `meta.injections` of a
trajectory maps each place that was poisoned to the text that was put there; tools that print YAML or JSON fold and indent it,
so words are compared and not bytes.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from foveal.values.entry import Message, ToolCall, assistant, result, system, user

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "agentdojo.jsonl.gz"
_WORDS = 8
"""So many words in a row are no coincidence."""


class Poisoned(NamedTuple):
    """One trajectory: its messages (OpenAI chat), and the injections that were put into what its tools read."""

    id: str
    messages: list[dict[str, Any]]
    injections: tuple[str, ...]


def poisoned() -> Iterator[Poisoned]:
    """The trajectories that were attacked."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        for line in lines:
            recorded = json.loads(line)
            if injections := recorded["meta"]["injections"]:
                yield Poisoned(recorded["id"], recorded["messages"], tuple(injections.values()))


def holding(injections: Iterable[str], texts: Iterable[str]) -> list[int]:
    """Which of these texts hold words of an injection."""
    runs = {run for injection in injections for run in _runs(injection)}
    return [at for at, text in enumerate(texts) if runs & set(_runs(text))]


def _runs(text: str) -> Iterator[str]:
    words = re.findall(r"\w+", text.replace("\\n", " ").casefold())
    for at in range(len(words) - _WORDS + 1):
        yield " ".join(words[at : at + _WORDS])


def as_message(recorded: dict[str, Any]) -> Message:
    """A recorded chat message."""
    text = str(recorded.get("content") or "")
    match recorded["role"]:
        case "assistant":
            asked = ((call["id"], call["function"]) for call in recorded.get("tool_calls") or ())
            return assistant(text, *(ToolCall(id_, named["name"], named["arguments"]) for id_, named in asked))
        case "tool":
            return result(recorded["tool_call_id"], text)
        case "system":
            return system(text)
        case _:
            return user(text)
