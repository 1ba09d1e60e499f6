"""OpenAI Codex CLI rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

    {"timestamp", "type": "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted", "payload"}

`response_item`s are the input and the output of the model; `event_msg`s mirror them for the screen and add the token counts.
Until autumn 2025 the items had no envelope and came after a header `{"id", "timestamp", "instructions"}`.

A model reply is recorded item by item: reasoning, message, calls. It ends where something else begins (an output, a user's
message) or where a token count says so.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from foveal.analysis.recordings.lines import JsonLine, at, raw_at, session_lines, stem
from foveal.analysis.recordings.recording import RecordedStep, Recording, one_session, tally
from foveal.dialects.content import text_part
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    arguments_text,
    count,
    elements,
    expect_mapping,
    expect_string,
    fields,
    json_text,
    mapping,
    string,
)
from foveal.dialects.openai_responses.read import PROVIDER, ROLES, read_content, read_output
from foveal.values.entry import Message, Opaque, Part, Text, ToolCall, Usage

_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_BOOKKEEPING = frozenset(("ghost_snapshot", "other"))
"""Response items that are bookkeeping of the agent."""

_OWNER = "a Codex item"


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    rollout = _Rollout()
    for line in session_lines(lines, notes):
        with at(file, line.number):
            rollout.add(line)
    steps = rollout.finished()
    yield one_session(
        rollout.id or stem(file),
        file,
        steps,
        [*notes, *rollout.notes()],
        dialect="openai_responses",
        tools=list(rollout.tools.values()),
        project=rollout.project,
        compactions=rollout.compactions,
    )


class _Rollout:
    """Reads a rollout line by line. `_reply` is the model reply that is being put together."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.project = ""
        self.compactions: list[int] = []
        self.tools: dict[str, JsonObject] = {}
        """Tool definitions by name, as far as the rollout holds them."""
        self._steps: list[RecordedStep] = []
        self._reply: list[Part] = []
        self._model: str | None = None
        self._turns: list[int] = []
        self._counted: object = None
        self._skipped: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()

    def add(self, line: JsonLine) -> None:
        record = expect_mapping(line.value, "a line of a Codex rollout")
        kind = string(record.get("type"))
        if "payload" in record:
            payload = expect_mapping(record["payload"], f"`payload` of a {kind} line")
            self._envelope(kind or "lines without a type", payload, line)
        elif kind is not None:
            self._item(kind, record, line, ())
        elif "record_type" in record:
            self._skipped["state"] += 1
        elif self.id is None and "id" in record:
            self._meta(record)
        else:
            raise NotUnderstood("expected a rollout line: an object with `type` and `payload`, or a response item")

    def finished(self) -> list[RecordedStep]:
        self._end_reply()
        return self._steps

    def notes(self) -> list[str]:
        """Return what was left out, and what the rollout does not hold."""
        has_system = any(step.message.role == "system" for step in self._steps)
        lacking = [] if has_system else ["the system prompt"]
        lacking += [] if self.tools else ["the tool definitions"]
        return [
            *([f"the rollout does not hold {' and '.join(lacking)}"] if lacking else []),
            *tally(self._skipped, "lines carry no message and were left out"),
            *(f"{count} {what}" for what, count in self._odd.items()),
        ]

    def _envelope(self, kind: str, payload: JsonObject, line: JsonLine) -> None:
        match kind:
            case "response_item":
                self._item(expect_string(payload.get("type"), "`type` of a response item"), payload, line, ("payload",))
            case "session_meta":
                self._meta(payload)
            case "turn_context":
                self._model = string(payload.get("model")) or self._model
                self._skipped[kind] += 1
            case "event_msg":
                self._event(payload)
            case "compacted":
                self._compacted(payload)
            case _:
                self._skipped[kind] += 1

    def _meta(self, payload: JsonObject) -> None:
        """Read a header. A forked session repeats its parent's header after its own; the first one counts."""
        self._skipped["session_meta"] += 1
        if self.id is not None:
            return
        self.id = string(payload.get("id"))
        self.project = string(payload.get("cwd")) or ""
        self._offer(payload.get("dynamic_tools"))
        instructions = fields(payload.get("base_instructions"))
        text = text_part(instructions.get("text"))
        if text:
            self._steps.append(RecordedStep(Message("system", text)))

    def _offer(self, tools: object) -> None:
        """Keep tool definitions. Codex records those that hosts and later turns add, not its own."""
        for value in elements(tools):
            tool = fields(value)
            if name := string(tool.get("name")):
                schema = tool.get("inputSchema")  # the spelling of hosts
                self.tools[name] = tool if schema is None else {**tool, "input_schema": schema}

    def _item(self, kind: str, item: JsonObject, line: JsonLine, path: tuple[str, ...]) -> None:
        if kind == "message":
            self._message(item)
        elif kind.endswith("_output"):
            self._end_reply()
            self._steps.append(RecordedStep(Message("tool", (read_output(item, _OWNER),))))
        elif kind == "additional_tools":
            self._offer(item.get("tools"))
        elif kind in _BOOKKEEPING:
            self._skipped[kind] += 1
        else:
            self._reply.append(_call(kind, item) or Opaque(PROVIDER, raw_at(line, path, json_text(item))))

    def _message(self, item: JsonObject) -> None:
        name = expect_string(item.get("role"), "`role` of a message")
        role = ROLES.get(name)
        if role is None:
            raise NotUnderstood(f"role {name!r} of a Codex message is not known; expected {', '.join(ROLES)}")
        parts = tuple(read_content(item.get("content"), json_text, _OWNER))
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

    def _event(self, payload: JsonObject) -> None:
        match payload.get("type"):
            case "token_count":
                self._token_count(fields(payload.get("info")))
            case "thread_rolled_back":
                self._roll_back(count(payload.get("num_turns")))
            case _:
                pass
        self._skipped["event_msg"] += 1

    def _token_count(self, info: JsonObject) -> None:
        """Give the newest reply its usage. Rate limits repeat the last counts; only a changed total is a new call."""
        last = mapping(info.get("last_token_usage"))
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
            count(last.get("input_tokens")),
            count(last.get("output_tokens")),
            cache_read_tokens=count(last.get("cached_input_tokens")),
            cache_write_tokens=count(last.get("cache_write_input_tokens")),
        )
        self._steps[index] = msgspec.structs.replace(self._steps[index], usage=usage)

    def _roll_back(self, turns: int) -> None:
        self._end_reply()
        if not turns or not self._turns:
            return
        first = self._turns[-min(turns, len(self._turns))]
        self._odd["messages of turns that were rolled back were left out"] += len(self._steps) - first
        del self._steps[first:]
        self.compactions = [place for place in self.compactions if place < first]
        del self._turns[-turns:]

    def _compacted(self, payload: JsonObject) -> None:
        """Keep the summary as a user message. The history that it replaced stays; the items that Codex kept are not repeated."""
        self._end_reply()
        parts: list[Part] = list(text_part(payload.get("message")))
        for value in elements(payload.get("replacement_history")):
            item = fields(value)
            if not parts and item.get("type") in ("compaction", "compaction_summary"):
                parts.append(Opaque(PROVIDER, json_text(item)))
            else:
                self._odd["items that a compaction repeats were left out"] += 1
        self._odd["compactions"] += 1
        self.compactions.append(len(self._steps))
        if parts:
            self._steps.append(RecordedStep(Message("user", tuple(parts))))


def _call(kind: str, item: JsonObject) -> ToolCall | None:
    """Return the call, if the agent has to answer it; None for one that the provider runs itself (web search).

    A recording is read by the agent's own names and inputs: with the namespace before the name, and without the wrapping that
    makes a reply's input valid JSON.
    """
    call_id = string(item.get("call_id")) or string(item.get("id"))
    match kind:
        case "function_call" | "custom_tool_call":
            name = expect_string(item.get("name"), f"`name` of a {kind}")
            arguments = arguments_text(item.get("arguments" if kind == "function_call" else "input"))
            return ToolCall(expect_string(call_id, f"`call_id` of a {kind}"), _full_name(item, name), arguments)
        case "local_shell_call" if call_id:
            return ToolCall(call_id, "local_shell", json_text(item.get("action")))
        case "tool_search_call" if call_id and item.get("execution") == "client":
            return ToolCall(call_id, "tool_search", arguments_text(item.get("arguments")))
        case _:
            return None


def _full_name(item: JsonObject, name: str) -> str:
    namespace = string(item.get("namespace"))
    if not namespace or namespace == "functions" or name.startswith(namespace):
        return name
    return f"{namespace}{name}" if namespace.endswith("_") else f"{namespace}.{name}"


def _is_context(parts: tuple[Part, ...]) -> bool:
    """Return whether Codex wrote the user message itself (`<environment_context>…`, AGENTS.md), so that it begins no turn."""
    first = next((part.text for part in parts if isinstance(part, Text)), "").strip()
    return first.startswith("# AGENTS.md") or (first.startswith("<") and first.endswith(">"))


def is_rollout_line(record: JsonObject) -> bool:
    """Return whether this is a line of a rollout, in one of its forms."""
    kind = string(record.get("type"))
    if "payload" in record:
        return kind in _ENVELOPES
    if kind is None:
        return "record_type" in record or {"id", "timestamp", "instructions"} <= record.keys()
    bare = {"message": "role", "reasoning": "summary", "function_call": "call_id", "function_call_output": "call_id"}
    return bare.get(kind, "") in record
