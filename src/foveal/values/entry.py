"""The entries of a log, and the values they carry.

An `Entry` gives a body its author, its time and the entry before it (`parent`). A body is a `Message`, made of
typed parts at the grain the provider spoke, or a mark: a fact about other entries (`Fold`, `Pin`, `Usage`, …). All of them
are frozen values that know nothing of storage, of prompts or of each other.

Texts may hold anything that a Python string can hold, lone surrogates and NULs included. They are kept as they came; only the
view makes them safe to send.
"""

from typing import Literal, TypeAlias

import msgspec

from foveal.values.fold_cost import FoldEconomics
from foveal.values.retention import RetentionRule

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Status: TypeAlias = Literal["ok", "error", "interrupted"]
Placement: TypeAlias = Literal[
    "after_system", "before_conversation", "before_request", "after_request", "after_result", "tail"
]
Stop: TypeAlias = Literal["done", "error", "aborted"]


class _Value(msgspec.Struct, frozen=True, tag_field="is", omit_defaults=True):
    """Shared settings of all values that are written to a log."""


class Text(_Value, frozen=True, tag="text"):
    text: str
    signature: str | None = None
    """Gemini signs text parts as well; the signature is sent back with its part."""


class Thinking(_Value, frozen=True, tag="thinking"):
    text: str
    signature: str | None = None


class RedactedThinking(_Value, frozen=True, tag="redacted"):
    data: str


class ToolCall(_Value, frozen=True, tag="call"):
    id: str
    name: str
    arguments: str
    """The JSON text as the model wrote it, valid or not."""
    signature: str | None = None


class Image(_Value, frozen=True, tag="image"):
    media_type: str
    data: bytes | None = None
    url: str | None = None
    width: int | None = None
    height: int | None = None


class File(_Value, frozen=True, tag="file"):
    media_type: str
    name: str
    data: bytes | None = None
    url: str | None = None


class StoredLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of an artifact, verbatim or its beginning."""

    number: int
    """Its place among the lines of the artifact, from 0."""
    text: str


class Stored(_Value, frozen=True, tag="stored"):
    """Text that is kept in an artifact because it is too large for the log. Head and tail are verbatim."""

    sha256: str
    size_bytes: int
    lines: int
    head: str
    tail: str
    shown: str = ""
    """Stand-in for prompts, if not the head and tail."""
    between: tuple[StoredLine, ...] = ()
    """Lines between head and tail that tell of trouble, of an artifact too large to be read again for each view."""


class Opaque(_Value, frozen=True, tag="opaque"):
    """A provider's part that we do not model, kept byte for byte as JSON text."""

    provider: str
    json: str


Content: TypeAlias = Text | Image | File | Stored


class ToolResult(_Value, frozen=True, tag="result"):
    call: str
    """The id of the call that this answers."""
    content: tuple[Content, ...]
    status: Status = "ok"
    retention: RetentionRule | None = None
    """Retention rule of this single call, above all other layers."""
    summary: str = ""
    """The tool's own line about the result, shown with the reference when the result is folded."""


Part: TypeAlias = Text | Thinking | RedactedThinking | ToolCall | ToolResult | Image | File | Stored | Opaque


class Message(_Value, frozen=True, tag="message"):
    role: Role
    parts: tuple[Part, ...]
    model: str | None = None
    """The model that wrote it; signatures are worthless to another."""
    stop: Stop = "done"


class PartFold(_Value, frozen=True, tag="part"):
    """One part of one entry is now shown by `text` (nothing, if empty)."""

    entry: str
    part: int
    level: str
    text: str
    tokens: int
    policy: str
    because: str


class Cover(msgspec.Struct, frozen=True, omit_defaults=True):
    """The effect of a range fold on the view for which it was made: a view for another model takes it over."""

    held: tuple[str, ...] = ()
    """First entries of the atoms in the range that it leaves out."""
    opener: str = ""
    """First entry of the reply that opened the running tool loop, if the stand-in is placed before it."""
    raw_tokens: tuple[int, ...] = ()
    """Tokens of the covered messages in full, for each run between the atoms left out."""


class RangeFold(_Value, frozen=True, tag="range"):
    """The entries `first` … `last` (whole atoms) are now shown by `text`."""

    first: str
    last: str
    level: str
    text: str
    tokens: int
    policy: str
    because: str
    prose: str = ""
    """The part of `text` that a model or the agent itself wrote; code made the rest."""
    author: str = ""
    """Author of the prose."""
    state: str = ""
    """Base of the next summary. Not kept in the log with each fold: it follows from the messages that are covered."""
    cover: Cover | None = None
    """Filled in when the fold is recorded. None in older logs; the view then decides it again."""
    room: int = 0
    """Characters of lines that the state has room for; 0 for the least that any has."""


FoldItem: TypeAlias = PartFold | RangeFold


class Fold(_Value, frozen=True, tag="fold"):
    """One batch of folds: the only thing that moves the prefix, with its reason and its price."""

    items: tuple[FoldItem, ...]
    reason: str
    before: int
    after: int
    rebilled: int
    """Tokens after the first changed position, which are billed anew."""
    stake: FoldEconomics | None = None
    """Figures of the decision: kind, calls expected, prices."""
    layout: bytes = b""
    """The view that it leaves, packed, without its texts: a view of this place in the log is built from here."""
    keeps_state: bool = False
    """Whether `layout` holds the state of the summary too. That of the folds in between follows from the messages since."""

    @property
    def saved(self) -> int:
        """Tokens that later prompts no longer hold."""
        return self.before - self.after


class Pin(_Value, frozen=True, tag="pin"):
    """An entry, a passage of it (`text`), or all results of a tool stay verbatim in every prompt."""

    entry: str = ""
    reason: str = ""
    tool: str = ""
    text: str = ""


class Unpin(_Value, frozen=True, tag="unpin"):
    """Takes back the pin with the same entry, tool and text."""

    entry: str = ""
    tool: str = ""
    text: str = ""


class Note(_Value, frozen=True, tag="note"):
    """A remark for the people who read the log. No model sees it."""

    text: str


class Usage(_Value, frozen=True, tag="usage"):
    """The provider's count of one call. `estimated` is our own count of the same prompt."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: int | None = None
    reasoning_tokens: int | None = None
    """The part of the output that was thinking; None where the provider does not tell it."""


class Fence(_Value, frozen=True, tag="fence"):
    """Content that a host puts beside the conversation, as it is sent. Of fences with one key, the newest is shown."""

    kind: str
    text: str
    call: int
    """The call that it was injected for."""
    turn: int
    """The turn that it was injected for."""
    attributes: tuple[tuple[str, str], ...] = ()
    key: str | None = None
    """None is shown beside all others of its kind, but not beside the very same text."""
    note: str = ""
    """Remark for the trace, such as why the host's formatter did not write the text."""

    @property
    def name(self) -> str:
        return self.kind if self.key is None else f"{self.kind}:{self.key}"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.kind, self.key) if self.key is not None else (self.kind, None, self.text, self.attributes)


class News(_Value, frozen=True, tag="news"):
    """Facts for the reminders of the next call, until the model answers: a host's own text, an upload, changed instructions."""

    field: str
    """The field of a situation that they belong to."""
    rows: tuple[tuple[str | int | None, ...], ...]
    """One for each fact: a name alone, or the values of the field's own type."""


ATTACHED = "file"
"""The author of an entry that holds an attached file and no words of the user."""

CLIENT = "client"
"""The author of an entry that a client told with its list, or will tell: `Session.follow` finds it again by its id."""


def again_id(told: str, times: int) -> str:
    """Return the id of the entry that holds a message of the id `told`, said for the first time, the second and so on."""
    return told if times == 1 else f"{times}.{told}"


def told_id(entry_id: str) -> str:
    """Return the id under which a client told the message of an entry of its own."""
    return entry_id.rpartition(".")[2]


INSTRUCTIONS = "instructions"
"""The author of a system prompt that takes the place of those before it."""

ONCE = "once:"
"""Prefix of the name of a reminder that a host gave for one call, so that it never equals the id of a rule."""


class ReminderLine(msgspec.Struct, frozen=True, array_like=True):
    """One of the reminders of a block: its line of the trace."""

    name: str
    tokens: int
    because: str = ""


class Block(msgspec.Struct, frozen=True, array_like=True):
    """A text beside the conversation in one prompt, and its placement."""

    name: str
    kind: str
    """`fence` or `reminder`."""
    role: Literal["user", "system"]
    placement: Placement
    text: str
    tokens: int
    because: str = ""
    """Reason for the trace."""
    raw_tokens: int = 0
    """Tokens of the whole text, if it was cut."""
    said: tuple[ReminderLine, ...] = ()
    """All reminders of a call are one block; their tokens are those of the block."""


class Again(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive blocks that the prompt before had as well."""

    at: int
    """Place of the first of them in this prompt."""
    place: int
    """Its place in the prompt before."""
    count: int


class PromptContext(_Value, frozen=True, tag="beside"):
    """The blocks beside the conversation in one prompt, so that it can be built again: the new ones, and runs of old ones."""

    blocks: tuple[Block, ...]
    again: tuple[Again, ...] = ()
    of: str = ""
    """The entry of the mark that `again` refers to: the newest one before this on its branch."""


class Overflow(_Value, frozen=True, tag="overflow"):
    """The provider refused a prompt for its length, or cut it silently: it accepts less than was assumed."""

    model: str
    limit: int
    """Tokens that it accepts, in its own count: as its error says, or a guess below the size of the prompt."""
    because: str
    is_cut: bool = False
    """Whether usage alone tells it. A limit that the policy names is not lowered for that."""


class LimitForgotten(_Value, frozen=True, tag="limit_forgotten"):
    """The limit that was learned of a model no longer holds."""

    model: str


class Rewind(_Value, frozen=True, tag="rewind"):
    """The branch continues from this mark's parent; later entries stay in the log."""

    reason: str = ""


class Setup(_Value, frozen=True, tag="setup"):
    """Model, dialect, policy and tools that the next prompts are built for. Kept in the log so that they can be built again."""

    model: str
    dialect: str
    counter: str
    policy: str
    """The policy as canonical JSON."""
    tools: str
    """The tool definitions as canonical JSON."""
    tools_tokens: int
    limit: int
    """The most tokens that may be sent, in the model's count."""
    retention: str = "[]"
    """The retention of tools as canonical JSON: all layers of the policy, the scenario and the tools' definitions."""
    reply_tokens: int | None = None
    """The most tokens of the reply, as the host said; None where it said nothing."""


Body: TypeAlias = (
    Message
    | Fold
    | Pin
    | Unpin
    | Note
    | Fence
    | News
    | PromptContext
    | Usage
    | Overflow
    | LimitForgotten
    | Rewind
    | Setup
)


class Entry(msgspec.Struct, frozen=True):
    id: str
    parent: str | None
    time_ms: int
    author: str
    body: Body


def system(text: str) -> Message:
    """Return a system prompt."""
    return Message("system", (Text(text),))


def user(*content: str | Text | Image | File) -> Message:
    """Return a message of the user: texts, images and files."""
    return Message("user", tuple(Text(item) if isinstance(item, str) else item for item in content))


def assistant(text: str, *calls: ToolCall, model: str | None = None) -> Message:
    """Return a reply of the model, for hosts that do not keep the provider's own reply."""
    parts: tuple[Part, ...] = (Text(text), *calls) if text else calls
    return Message("assistant", parts, model=model)


def result(
    call: str,
    *content: str | Text | Image | File | Stored,
    status: Status = "ok",
    retention: RetentionRule | None = None,
    summary: str = "",
) -> Message:
    """Return the result of a tool for the call with this id."""
    items = tuple(Text(item) if isinstance(item, str) else item for item in content)
    return Message("tool", (ToolResult(call, items, status, retention, summary),))
