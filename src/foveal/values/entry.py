"""What a log holds: entries, and the values they carry.

An `Entry` gives a place to a body: who said it, when, and after which entry (`parent`). A body is a `Message`, made of
typed parts at the grain the provider spoke, or a mark: a fact about other entries (`Fold`, `Pin`, `Usage`, …). All of them
are frozen values that know nothing of storage, of prompts or of each other.

Texts may hold anything a Python string can hold, lone surrogates and NULs included. They are kept as they came; only the
view makes them safe to send.
"""

from typing import Literal, TypeAlias

import msgspec

from foveal.values.fold_cost import FoldEconomics
from foveal.values.retention import RetentionRule

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Status: TypeAlias = Literal["ok", "error", "interrupted"]
Placement: TypeAlias = Literal["after_system", "before_request", "after_request", "after_result", "tail"]
Stop: TypeAlias = Literal["done", "error", "aborted"]


class _Value(msgspec.Struct, frozen=True, tag_field="is", omit_defaults=True):
    """Shared settings of all values that are written to a log."""


class Text(_Value, frozen=True, tag="text"):
    text: str
    signature: str | None = None
    """Gemini signs text parts as well; the signature goes back with the part it came with."""


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


class Stored(_Value, frozen=True, tag="stored"):
    """Text that lives in an artifact because it is too large for the log. Head and tail are verbatim."""

    sha256: str
    size_bytes: int
    lines: int
    head: str
    tail: str
    shown: str = ""
    """What stands for it in prompts, where that is not its head and tail."""


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
    """What this one call says of its result's retention, above all other rules."""
    summary: str = ""
    """What happened, in one line of the tool's own: stands beside the reference when the result is folded."""


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
    """What a model, or the agent itself, wrote of `text`; code made the rest."""
    author: str = ""
    """Who wrote the prose."""
    state: str = ""
    """What the next summary is made from. Not kept in the log: it follows from the messages that are covered."""


FoldItem: TypeAlias = PartFold | RangeFold


class Fold(_Value, frozen=True, tag="fold"):
    """One batch of folds: the only thing that moves the prefix, with its reason and its price."""

    items: tuple[FoldItem, ...]
    reason: str
    before: int
    after: int
    rebilled: int
    """Tokens that stand after the first changed position and are paid for anew."""
    stake: FoldEconomics | None = None
    """What it was decided on: kind, calls expected, prices."""

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
    """What the provider counted for one call. `estimated` is what we had counted for the same prompt."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: int | None = None


class Fence(_Value, frozen=True, tag="fence"):
    """What a host puts beside the conversation, as it is sent. Of fences with one key, the newest is shown."""

    kind: str
    text: str
    call: int
    """The call that it was injected for."""
    turn: int
    """The turn that it was injected for."""
    attributes: tuple[tuple[str, str], ...] = ()
    key: str | None = None
    """None stands beside all others of its kind, but not beside the very same text."""
    note: str = ""
    """What the trace says of it besides: why the host's formatter did not write it, say."""

    @property
    def name(self) -> str:
        return self.kind if self.key is None else f"{self.kind}:{self.key}"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.kind, self.key) if self.key is not None else (self.kind, None, self.text, self.attributes)


ATTACHED = "file"
"""The author of an entry that was attached as a file, rather than said by anybody."""

ONCE = "once:"
"""Before the name of a reminder that a host said in one call: it never meets the id of a rule, and nobody asks for it again."""


class ReminderLine(msgspec.Struct, frozen=True, array_like=True):
    """One of the reminders that a block holds: its line of the trace."""

    name: str
    tokens: int
    because: str = ""


class Block(msgspec.Struct, frozen=True, array_like=True):
    """A text that stands beside the conversation in one prompt, and where."""

    name: str
    kind: str
    """`fence` or `reminder`."""
    role: Literal["user", "system"]
    placement: Placement
    text: str
    tokens: int
    because: str = ""
    """What the trace says of it."""
    raw_tokens: int = 0
    """What it would have taken whole, where it was cut."""
    said: tuple[ReminderLine, ...] = ()
    """All reminders of a call are one block; their tokens are those of the block."""


class Again(msgspec.Struct, frozen=True, array_like=True):
    """Blocks in a row that stood in the prompt before as well."""

    at: int
    """Where the first of them stands."""
    place: int
    """Where it stood."""
    count: int


class PromptContext(_Value, frozen=True, tag="beside"):
    """What one prompt held beside the conversation, so that it can be built again: what is new of it, and what is not."""

    blocks: tuple[Block, ...]
    again: tuple[Again, ...] = ()
    of: str = ""
    """The entry of the mark that `again` speaks of: the newest one before this on its branch."""


class Overflow(_Value, frozen=True, tag="overflow"):
    """The provider refused a prompt for its length, or cut it silently: it takes less than was thought."""

    model: str
    limit: int
    """What it takes, in its own tokens: as it said, or a guess below what was sent."""
    because: str


class Rewind(_Value, frozen=True, tag="rewind"):
    """The branch goes on from this mark's parent; what came after that stays in the log."""

    reason: str = ""


class Setup(_Value, frozen=True, tag="setup"):
    """What the next prompts are built for. Kept in the log so that any of them can be built again."""

    model: str
    dialect: str
    counter: str
    policy: str
    """The policy as canonical JSON."""
    tools: str
    """The tool definitions as canonical JSON."""
    tools_tokens: int
    limit: int
    """The most that may be sent, in the model's tokens."""
    retention: str = "[]"
    """The retention of tools as canonical JSON: what the policy, the scenario and the tools' definitions came to."""


Body: TypeAlias = Message | Fold | Pin | Unpin | Note | Fence | PromptContext | Usage | Overflow | Rewind | Setup


class Entry(msgspec.Struct, frozen=True):
    id: str
    parent: str | None
    time_ms: int
    author: str
    body: Body


def system(text: str) -> Message:
    """A system prompt."""
    return Message("system", (Text(text),))


def user(*content: str | Text | Image | File) -> Message:
    """What the user said: texts, images and files."""
    return Message("user", tuple(Text(item) if isinstance(item, str) else item for item in content))


def assistant(text: str, *calls: ToolCall, model: str | None = None) -> Message:
    """What the model answered, for hosts that do not keep the provider's own reply."""
    parts: tuple[Part, ...] = (Text(text), *calls) if text else calls
    return Message("assistant", parts, model=model)


def result(
    call: str,
    *content: str | Text | Image | File | Stored,
    status: Status = "ok",
    retention: RetentionRule | None = None,
    summary: str = "",
) -> Message:
    """What a tool returned for the call with this id."""
    items = tuple(Text(item) if isinstance(item, str) else item for item in content)
    return Message("tool", (ToolResult(call, items, status, retention, summary),))
