"""Conversations: which of them a request belongs to, and the step of its script that answers it.

The step is kept here and not derived from the history, because a gateway changes the history. A request whose messages were
answered before gets the same step again. A conversation is found, in this order, by the ids that clients send, by an id of an
answer that occurs in the request (a gateway may fold the first message away), and by its system prompt and first user text.
"""

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import msgspec

from foveal.dialects.json_values import fields
from foveal.testing.provider.cache import PromptBlock
from foveal.testing.provider.replies import Call, Turn
from foveal.testing.provider.script import Script, Step, StepFault
from foveal.testing.provider.tools import find_call, forbids_calls, offered_tools, sample_arguments

AT_ITS_END = "The script is at its end."

_SESSION_HEADERS = (
    ("x-claude-code-session-id", "x-claude-code-agent-id"),
    ("thread-id",),
    ("x-session-id",),
    ("session_id",),
)
"""Headers that name a conversation, in the order in which they are asked: Claude Code, Codex, opencode, pi."""

_TEXT_ONLY = b"CRITICAL: Respond with TEXT ONLY"
"""First words of Claude Code's request for a summary, which offers tools all the same."""


@dataclass
class PlayedConversation:
    """A conversation and its place in the script."""

    key: str
    script: Script | None = None
    step: int = 0
    """The step that answers the next request with new messages."""
    answered: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The step that answered, by the digest of the messages."""
    faults: Counter[int] = field(default_factory=Counter[int])
    """Faults that were given, by step."""


def session_key(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Return the id of a conversation that a client sent; empty where it sent none."""
    for names in _SESSION_HEADERS:
        if headers.get(names[0]):
            return "/".join(headers[name] for name in names if headers.get(name))
    return _user_session(body.get("metadata")) or str(body.get("prompt_cache_key") or "")


def _user_session(metadata: object) -> str:
    """Return the session in Anthropic's `metadata.user_id`, which Claude Code fills with JSON."""
    try:
        told = json.loads(str(fields(metadata).get("user_id")))
    except ValueError:
        return ""
    return str(fields(told).get("session_id") or "")


class Conversations:
    """All conversations of a provider. Not safe for threads: the provider holds its lock."""

    def __init__(self, *, cwd: str = "") -> None:
        self.scripts: list[Script] = []
        self._cwd = cwd
        # Digits only, so that ids of all runs are equally many tokens.
        self._run = str(10**8 + secrets.randbelow(9 * 10**8))
        self._by_key: dict[str, PlayedConversation] = {}
        self._by_answer: dict[int, PlayedConversation] = {}
        self._answers = 0

    def forget(self) -> None:
        """Forget scripts and conversations; ids go on."""
        self.scripts.clear()
        self._by_key.clear()
        self._by_answer.clear()

    def find(
        self, headers: Mapping[str, str], body: Mapping[str, Any], raw: bytes, blocks: Sequence[PromptBlock]
    ) -> PlayedConversation:
        """Return the conversation of a request."""
        key = session_key(headers, body)
        if not key:
            if known := self._by_answer.get(self._newest_answer(raw)):
                return known
            key = f"begins {_beginning(blocks)}"
        return self._by_key.setdefault(key, PlayedConversation(key))

    def _newest_answer(self, raw: bytes) -> int:
        """Return the number of the newest answer whose id occurs in the request; 0 where none does."""
        run = self._run.encode()
        place = raw.rfind(run)
        digits = raw[place + len(run) : place + len(run) + 6] if place >= 0 else b""
        return int(digits) if digits.isdigit() else 0

    def play(
        self,
        talk: PlayedConversation,
        dialect: str,
        body: Mapping[str, Any],
        *,
        raw: bytes,
        blocks: Sequence[PromptBlock],
    ) -> tuple[StepFault, int] | None:
        """Return the answer of the conversation's script and the number of its ids; None where no script is for it.

        Raise `BadInput` where no offered tool can do the step.
        """
        messages = [block.data for block in blocks if block.role not in ("tools", "system")]
        script = talk.script = talk.script or next((one for one in self.scripts if _is_for(one, messages)), None)
        if script is None:
            return None
        if (side := _side(script, body, blocks)) is not None:
            return Turn(side), self._number(talk)
        digest = _digest(messages)
        number = talk.answered.get(digest, talk.step)
        if number < talk.step and talk.key.startswith("begins "):  # a retry, or another client with the same words
            talk = replace(talk, step=number, answered=dict(talk.answered))
        step = script.steps[number] if number < len(script.steps) else Step(AT_ITS_END)
        sent: StepFault = Turn()
        if talk.faults[number] < len(step.faults):
            sent = step.faults[talk.faults[number]]
            talk.faults[number] += 1
        if not isinstance(sent, Turn) or sent.text or sent.calls:
            return sent, self._number(talk)
        thinks = step.think if dialect != "anthropic" or _may_think(body) else ""
        prefix = "toolu" if dialect == "anthropic" else "call"
        calls = () if forbids_calls(body) else self._calls(step, prefix, body, raw)
        says = step.say or (script.side if step.do and not calls else "")
        if sent.is_whole:
            talk.answered[digest] = number
            talk.step = max(talk.step, number + 1)
        return replace(sent, text=says, calls=calls, thinking=thinks), self._number(talk)

    def _calls(self, step: Step, prefix: str, body: Mapping[str, Any], raw: bytes) -> tuple[Call, ...]:
        tools = offered_tools(body)
        ids = f"{prefix}_{self._run}{self._answers + 1:06d}"
        return tuple(find_call(one, tools, f"{ids}{i:02d}", cwd=self._cwd, raw=raw) for i, one in enumerate(step.do))

    def _number(self, talk: PlayedConversation) -> int:
        """Return the number of an answer's ids: those of this run, and unlike those of any other."""
        self._answers += 1
        self._by_answer[self._answers] = talk
        return int(f"{self._run}{self._answers:06d}")


def _may_think(body: Mapping[str, Any]) -> bool:
    return fields(body.get("thinking")).get("type") in ("enabled", "adaptive")


def _is_for(script: Script, messages: Iterable[bytes]) -> bool:
    """Return whether a script is for a conversation that begins with these messages."""
    words = msgspec.json.encode(script.when)[1:-1]
    return any(words in message for message in messages)


def _digest(texts: Iterable[bytes]) -> bytes:
    hashed = blake2b(digest_size=16)
    for text in texts:
        hashed.update(len(text).to_bytes(8, "big") + text)
    return hashed.digest()


def _beginning(blocks: Sequence[PromptBlock]) -> str:
    """Return a digest of the system prompt and the first user text."""
    first = next((block.data for block in blocks if block.role == "user"), b"")
    return _digest([*(block.data for block in blocks if block.role == "system"), first]).hex()


def _side(script: Script, body: Mapping[str, Any], blocks: Sequence[PromptBlock]) -> str | None:
    """Return the answer to a request beside the conversation (a title, a summary, a choice as JSON); None for any other."""
    schema = _reply_schema(body)
    if schema is not None:
        return json.dumps(sample_arguments(schema))
    newest = next((block.data for block in reversed(blocks) if block.role == "user"), b"")
    is_side = script.calls_tools and (not offered_tools(body) or _TEXT_ONLY in newest)
    return script.side if is_side else None


def _reply_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema that the reply must have; empty where JSON without one is wanted, None where a text is."""
    gemini = fields(body.get("generationConfig"))
    if "json" in str(gemini.get("responseMimeType")):
        return fields(gemini.get("responseJsonSchema") or gemini.get("responseSchema"))
    places = ((body.get("output_config"), "format"), (body.get("text"), "format"), (body, "response_format"))
    for held, key in (*places, (body, "output_format")):
        wanted = fields(fields(held).get(key))
        if "json" in str(wanted.get("type")):
            return fields(wanted.get("schema") or fields(wanted.get("json_schema")).get("schema"))
    return None
