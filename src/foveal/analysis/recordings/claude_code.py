"""Claude Code sessions: `~/.claude/projects/<project>/<session>.jsonl`.

A line is an envelope around a message of the Anthropic API (`type` user or assistant), an attachment that was put before
the model, or bookkeeping. One API reply is written as several lines, a block each, which share `message.id` and repeat
`message.usage`; they become one message again here. A user message of the file may hold the results of tools. Sub-agents are
side chains: in older versions among the lines of the session, in newer ones in files of their own (`subagents/agent-*.jsonl`).
The format is internal to Claude Code and changes; unknown lines and blocks are expected and counted or kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.recordings.claude_attachments import attachment_parts
from foveal.analysis.recordings.claude_chain import ClaudeLine, conversation_lines, reply_runs, split_chains
from foveal.analysis.recordings.claude_setup import SHAPE, SNAPSHOT, recorded_setup
from foveal.analysis.recordings.lines import JsonLine, at, raw_at, session_lines, stem
from foveal.analysis.recordings.recording import RecordedStep, Recording, one_session, tally
from foveal.dialects.anthropic.read import read_block, read_reply_block, read_result, read_usage
from foveal.dialects.content import text_part
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    expect_mapping,
    expect_string,
    fields,
    json_text,
    kind_of,
    mapping,
    sequence,
    string,
)
from foveal.dialects.opaque import KeepVerbatim
from foveal.values.entry import Message, Part, Text, ToolResult, Usage

_SYNTHETIC = "<synthetic>"
"""The model name of replies that Claude Code wrote itself, such as API errors."""


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    """Yield the session of a file, then its sub-agents' conversations, each as a session of its own."""
    notes: list[str] = []
    entries: list[ClaudeLine] = []
    for line in session_lines(lines, notes):
        with at(file, line.number):
            entries.append(_entry(line))
    ids = (string(entry.record.get("sessionId")) for entry in reversed(entries))
    name = next(filter(None, ids), stem(file))
    chains = split_chains(entries)
    if len(chains) > 1:
        notes.append(f"side chains of {len(chains) - 1} sub-agent(s) are in the file; each is a session of its own")
    bookkeeping: Counter[str] = Counter(entry.type for entry in entries if entry.message is None and entry.uuid is None)
    del bookkeeping[SHAPE]
    for agent, lines_of_agent in chains:
        chain = conversation_lines(lines_of_agent, notes)
        setup = recorded_setup(entries, agent, chain)
        conversation = _Conversation(setup.system)
        for entry, run in zip(chain, reply_runs(chain), strict=True):
            with at(file, entry.line.number):
                conversation.add(entry, run)
        notes += tally(bookkeeping + conversation.skipped, "lines carry no message and were left out")
        notes += [*conversation.notes(), *setup.notes]
        own = f"{name}/{agent}" if agent else name
        yield one_session(
            own,
            file,
            conversation.steps,
            notes,
            dialect="anthropic",
            tools=setup.tools,
            project=next(filter(None, (string(entry.record.get("cwd")) for entry in entries)), ""),
            compactions=conversation.compactions,
        )
        notes, bookkeeping = [], Counter()


def _entry(line: JsonLine) -> ClaudeLine:
    record = expect_mapping(line.value, "a line of a Claude Code session")
    kind = string(record.get("type")) or "lines without a type"
    message = None
    if kind in ("user", "assistant"):
        message = expect_mapping(record.get("message"), f"`message` of a Claude Code {kind} line")
    aside = record.get("isSidechain") is True or record.get("parent_tool_use_id") is not None
    return ClaudeLine(line, kind, record, message, aside)


class _Conversation:
    """Turns the entries of one chain into steps."""

    def __init__(self, system: Sequence[str]) -> None:
        self.steps = [RecordedStep(Message("system", (Text(text),))) for text in system]
        self.skipped: Counter[str] = Counter()
        self._places: dict[int, int] = {}
        self._request: int | None = None
        """Place of the user's words, while nothing but attachments follows them."""
        self._before = 0
        """Number of parts that attachments have put before these words."""
        self._synthetic = 0
        self.compactions: list[int] = []
        self._agents: set[str] = set()

    def add(self, entry: ClaudeLine, run: int | None) -> None:
        """Add the next entry; `run` numbers the reply that it is a piece of."""
        if run is not None and entry.message is not None:
            self._reply(entry, entry.message, run)
        elif entry.message is not None:
            self._user(entry, entry.message)
        elif entry.type == "attachment":
            self._attachment(entry.record)
        elif entry.type == "system":
            self._system(entry.record)
        elif entry.uuid is not None:
            self.skipped[entry.type] += 1

    def notes(self) -> list[str]:
        """Return what there is to say about the conversation."""
        notes: list[str] = []
        if self._synthetic:
            notes.append(f"{self._synthetic} replies were written by Claude Code itself (API errors and the like)")
        if self.compactions:
            notes.append(f"{len(self.compactions)} compactions of the recording agent are in it")
        if self._agents:
            notes.append(
                f"{len(self._agents)} sub-agents ran; newer versions keep each in a file of its own, in `subagents/`"
            )
        return notes

    def _reply(self, entry: ClaudeLine, message: JsonObject, run: int) -> None:
        self._request = None
        parts = tuple(_assistant_parts(entry, message))
        model = string(message.get("model"))
        usage = read_usage(message, model or "unknown")
        if model == _SYNTHETIC:
            self._synthetic += 1
            model = usage = None
        place = self._places.get(run)
        if place is None:
            stop = "error" if entry.record.get("isApiErrorMessage") is True else "done"
            self._places[run] = len(self.steps)
            self.steps.append(RecordedStep(Message("assistant", parts, model, stop), usage))
            return
        begun = self.steps[place]
        merged = msgspec.structs.replace(begun.message, parts=(*begun.message.parts, *parts))
        self.steps[place] = RecordedStep(merged, _fuller(begun.usage, usage))

    def _user(self, entry: ClaudeLine, message: JsonObject) -> None:
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else sequence(content)
        if blocks is None:
            raise NotUnderstood(f"`content` of a user message must be a string or a list, not {kind_of(content)}")
        if agent := string(fields(entry.record.get("toolUseResult")).get("agentId")):
            self._agents.add(agent)
        self._request = None
        parts: list[Part] = []
        for index, value in enumerate(blocks):
            block = mapping(value)
            if block is None:
                parts += text_part(expect_string(value, "a content block"))
            elif block.get("type") == "tool_result":
                self.steps.append(RecordedStep(Message("tool", (_result(block, entry.record),))))
            else:
                parts += read_block(block, _as_written(entry, index))
        if parts:
            self._request, self._before = len(self.steps), 0
            self.steps.append(RecordedStep(Message("user", tuple(parts))))
        elif not content:
            self.steps.append(RecordedStep(Message("user", ())))

    def _attachment(self, record: JsonObject) -> None:
        """Add an attachment, as the model was shown it; count one that it was not shown, or whose text is not in the file.

        Those in the user's name stand before the user's words, as they are sent: the words stay the end of the request.
        """
        attachment = fields(record.get("attachment"))
        kind = string(attachment.get("type")) or "of no type"
        role, parts = attachment_parts(kind, attachment, record)
        if not parts:
            self.skipped[f"attachment {kind}"] += kind != SNAPSHOT
        elif role == "user" and self._request is not None and kind != "queued_command":
            said = self.steps[self._request].message
            noted, words = said.parts[: self._before], said.parts[self._before :]
            self.steps[self._request] = RecordedStep(msgspec.structs.replace(said, parts=(*noted, *parts, *words)))
            self._before += len(parts)
        elif role == "system" and self.steps and self.steps[-1].message.role == "system" and self._is_begun():
            last = self.steps[-1].message
            self.steps[-1] = RecordedStep(msgspec.structs.replace(last, parts=(*last.parts, *parts)))
        else:
            self.steps.append(RecordedStep(Message(role, parts)))

    def _is_begun(self) -> bool:
        return any(step.message.role != "system" for step in self.steps)

    def _system(self, record: JsonObject) -> None:
        """Add the output of a command that the user ran; count any other system line, which the model does not see."""
        subtype = string(record.get("subtype")) or "of no subtype"
        content = record.get("content")
        if subtype == "compact_boundary":
            self.compactions.append(len(self.steps))
        if subtype == "local_command" and isinstance(content, str) and content:
            self.steps.append(RecordedStep(Message("user", (Text(content),))))
        else:
            self.skipped[f"system {subtype}"] += subtype != "compact_boundary"


def _assistant_parts(entry: ClaudeLine, message: JsonObject) -> Iterator[Part]:
    content = message.get("content")
    if isinstance(content, str):
        yield from text_part(content)
        return
    blocks = sequence(content)
    if blocks is None:
        raise NotUnderstood(f"`content` of an assistant message must be a list of blocks, not {kind_of(content)}")
    for index, value in enumerate(blocks):
        block = expect_mapping(value, "a content block")
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            yield from text_part(text)  # without its citations, so that every dialect can show the words
        else:
            yield read_reply_block(block, _as_written(entry, index))


def _result(block: JsonObject, record: JsonObject) -> ToolResult:
    """Return a tool result. Beside the block, the line has the tool's own record: its text, if the block has none, and
    whether the user interrupted the tool."""
    beside = record.get("toolUseResult")
    told = beside if isinstance(beside, str) else fields(beside).get("content")
    is_text_beside = "content" not in block and isinstance(told, str)
    result = read_result({**block, "content": told} if is_text_beside else block)
    is_interrupted = fields(beside).get("interrupted") is True
    return msgspec.structs.replace(result, status="interrupted") if is_interrupted else result


def _fuller(first: Usage | None, second: Usage | None) -> Usage | None:
    """Return the usage with more output: lines written while the reply was streaming carry a provisional count."""
    if first is None or second is None:
        return first or second
    return second if second.output_tokens >= first.output_tokens else first


def _as_written(entry: ClaudeLine, index: int) -> KeepVerbatim:
    """Return a function that keeps a content block byte for byte as it was written."""
    return lambda block: raw_at(entry.line, ("message", "content", index), json_text(block))
