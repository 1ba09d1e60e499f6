"""OpenAI Codex CLI rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

    {"timestamp", "type": "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted", "payload"}

`response_item`s are what the model saw and said; `event_msg`s mirror them for the screen and add the token counts. Until
autumn 2025 the items stood bare, after a header `{"id", "timestamp", "instructions"}`.

A model reply is recorded item by item: reasoning, message, calls. It ends where something else begins (an output, a user's
message) or where a token count says so.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from foveal.analysis.recordings.codex_items import call_of, result_of, said
from foveal.analysis.recordings.fields import (
    NotUnderstood,
    Object,
    at,
    count_or_zero,
    dump,
    expect_object,
    expect_text,
    list_or_none,
    object_or_none,
    tally,
    text_or_none,
)
from foveal.analysis.recordings.lines import JsonLine, complete, raw_at, stem
from foveal.analysis.recordings.parts import text_part
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.recordings.session import one_session
from foveal.values.entry import Message, Opaque, Part, Role, Text, Usage

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_NOT_SAID = frozenset(("ghost_snapshot", "additional_tools", "other"))
"""Response items that are bookkeeping of the agent."""


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    rollout = _Rollout()
    for line in complete(lines, notes):
        with at(file, line.number):
            rollout.add(line)
    yield one_session(rollout.id or stem(file), file, rollout.finished(), [*notes, *rollout.notes()])


class _Rollout:
    """Reads a rollout line by line. `_reply` is the model reply that is being put together."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._steps: list[RecordedStep] = []
        self._reply: list[Part] = []
        self._model: str | None = None
        self._turns: list[int] = []
        self._counted: object = None
        self._silent: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()

    def add(self, line: JsonLine) -> None:
        record = expect_object(line.value, "a line of a Codex rollout")
        kind = text_or_none(record.get("type"))
        if "payload" in record:
            payload = expect_object(record["payload"], f"`payload` of a {kind} line")
            self._envelope(kind or "lines without a type", payload, line)
        elif kind is not None:
            self._item(kind, record, line, ())
        elif "record_type" in record:
            self._silent["state"] += 1
        elif self.id is None and "id" in record:
            self._meta(record)
        else:
            raise NotUnderstood("expected a rollout line: an object with `type` and `payload`, or a response item")

    def finished(self) -> list[RecordedStep]:
        self._end_reply()
        return self._steps

    def notes(self) -> list[str]:
        return [
            *tally(self._silent, "lines carry no message and were left out"),
            *(f"{count} {what}" for what, count in self._odd.items()),
        ]

    def _envelope(self, kind: str, payload: Object, line: JsonLine) -> None:
        match kind:
            case "response_item":
                self._item(expect_text(payload.get("type"), "`type` of a response item"), payload, line, ("payload",))
            case "session_meta":
                self._meta(payload)
            case "turn_context":
                self._model = text_or_none(payload.get("model")) or self._model
                self._silent[kind] += 1
            case "event_msg":
                self._event(payload)
            case "compacted":
                self._compacted(payload)
            case _:
                self._silent[kind] += 1

    def _meta(self, payload: Object) -> None:
        """A forked session repeats its parent's header after its own; the first one counts."""
        self._silent["session_meta"] += 1
        if self.id is not None:
            return
        self.id = text_or_none(payload.get("id"))
        instructions = object_or_none(payload.get("base_instructions")) or {}
        text = text_part(instructions.get("text"))
        if text:
            self._steps.append(RecordedStep(Message("system", text)))

    def _item(self, kind: str, item: Object, line: JsonLine, path: tuple[str, ...]) -> None:
        if kind == "message":
            self._message(item)
        elif kind.endswith("_output"):
            self._end_reply()
            self._steps.append(RecordedStep(Message("tool", (result_of(item),))))
        elif kind in _NOT_SAID:
            self._silent[kind] += 1
        else:
            self._reply.append(call_of(kind, item) or Opaque("openai", raw_at(line, path, dump(item))))

    def _message(self, item: Object) -> None:
        name = expect_text(item.get("role"), "`role` of a message")
        role = _ROLES.get(name)
        if role is None:
            raise NotUnderstood(f"role {name!r} of a Codex message is not known; expected {', '.join(_ROLES)}")
        parts = tuple(said(item.get("content")))
        if role == "assistant":
            self._reply += parts
            return
        self._end_reply()
        if role == "user" and not _is_context(parts):
            self._turns.append(len(self._steps))
        self._steps.append(RecordedStep(Message(role, parts)))

    def _end_reply(self) -> None:
        if self._reply:
            self._steps.append(RecordedStep(Message("assistant", tuple(self._reply), self._model)))
            self._reply = []

    def _event(self, payload: Object) -> None:
        match payload.get("type"):
            case "token_count":
                self._token_count(object_or_none(payload.get("info")) or {})
            case "thread_rolled_back":
                self._roll_back(count_or_zero(payload.get("num_turns")))
            case _:
                pass
        self._silent["event_msg"] += 1

    def _token_count(self, info: Object) -> None:
        """Rate limits are sent in the same event, with the last counts repeated; only a changed total is a new call."""
        last = object_or_none(info.get("last_token_usage"))
        totals = info.get("total_token_usage")
        if last is None or (totals is not None and totals == self._counted):
            return
        self._counted = totals
        self._end_reply()
        index = next((i for i in reversed(range(len(self._steps))) if self._steps[i].message.role == "assistant"), None)
        if index is None or self._steps[index].usage is not None:
            self._odd["token counts belong to no recorded reply (compactions and the like)"] += 1
            return
        usage = Usage(
            self._model or "unknown",
            count_or_zero(last.get("input_tokens")),
            count_or_zero(last.get("output_tokens")),
            cache_read_tokens=count_or_zero(last.get("cached_input_tokens")),
        )
        self._steps[index] = msgspec.structs.replace(self._steps[index], usage=usage)

    def _roll_back(self, turns: int) -> None:
        self._end_reply()
        if not turns or not self._turns:
            return
        first = self._turns[-min(turns, len(self._turns))]
        self._odd["messages of turns that were rolled back were left out"] += len(self._steps) - first
        del self._steps[first:]
        del self._turns[-turns:]

    def _compacted(self, payload: Object) -> None:
        """The summary is kept as a user message. The history that it replaced stays; what Codex kept is not repeated."""
        self._end_reply()
        parts: list[Part] = list(text_part(payload.get("message")))
        for value in list_or_none(payload.get("replacement_history")) or ():
            item = object_or_none(value) or {}
            if not parts and item.get("type") in ("compaction", "compaction_summary"):
                parts.append(Opaque("openai", dump(item)))
            else:
                self._odd["items that a compaction repeats were left out"] += 1
        self._odd["compactions"] += 1
        if parts:
            self._steps.append(RecordedStep(Message("user", tuple(parts))))


def _is_context(parts: tuple[Part, ...]) -> bool:
    """User messages that Codex writes itself (`<environment_context>…`, AGENTS.md) do not begin a turn."""
    first = next((part.text for part in parts if isinstance(part, Text)), "").strip()
    return first.startswith("# AGENTS.md") or (first.startswith("<") and first.endswith(">"))


def is_rollout_line(record: Object) -> bool:
    """Whether this is a line of a rollout, in one of its forms."""
    kind = text_or_none(record.get("type"))
    if "payload" in record:
        return kind in _ENVELOPES
    if kind is None:
        return "record_type" in record or {"id", "timestamp", "instructions"} <= record.keys()
    bare = {"message": "role", "reasoning": "summary", "function_call": "call_id", "function_call_output": "call_id"}
    return bare.get(kind, "") in record
