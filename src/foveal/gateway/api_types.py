"""The bodies of the HTTP API: requests with the parameters of the library's verbs, replies with the library's own values."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from foveal.context.injection import NextCall
from foveal.recall import Fetch
from foveal.recall.search import Hit
from foveal.session.follow import Outcome
from foveal.stores.port import SessionCard
from foveal.values.entry import Entry, ToolCall
from foveal.values.events import PressureLevel
from foveal.values.trace import Trace

WireItem: TypeAlias = Annotated[
    dict[str, Any],
    Meta(description="A message, reply or mark: in a provider's own format, or neutral, with its kind under `is`."),
]
ToolDefinition: TypeAlias = Annotated[
    dict[str, Any],
    Meta(description="A tool as any of the providers has it defined, or {name, description, parameters}."),
]

MOST_LISTED = 1_000
"""Sessions of one list."""


class NoParameters(msgspec.Struct, frozen=True):
    """No parameters."""


class ListRequest(msgspec.Struct, frozen=True):
    """The parameters of a list of sessions, the newest first."""

    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class CreateRequest(msgspec.Struct, frozen=True):
    """The parameters of a session that is opened for a model: it is made, or goes on."""

    name: Annotated[str, Meta(min_length=1, max_length=400)]
    model: Annotated[str, Meta(min_length=1, max_length=200)]
    dialect: str | None = None
    """By default the one of the model's provider."""
    policy: Annotated[dict[str, Any] | None, Meta(description="As in a policy file. By default the gateway's own.")] = (
        None
    )
    takeover: Annotated[bool, Meta(description="Take the session from another living process.")] = False


class AppendRequest(msgspec.Struct, frozen=True):
    """An item to keep: something that happened."""

    item: WireItem
    id: Annotated[str | None, Meta(description="The same item under the same id again changes nothing.")] = None


class ExtendRequest(msgspec.Struct, frozen=True):
    """Items to keep together: all of them or none."""

    items: list[WireItem]


class FollowRequest(msgspec.Struct, frozen=True):
    """A client's whole list of messages."""

    messages: list[WireItem]
    system: str | list[WireItem] | None = None


class PromptRequest(msgspec.Struct, frozen=True):
    """The parameters of the next request to the provider."""

    tools: tuple[ToolDefinition, ...] = ()
    next_call: NextCall = NextCall()


class RecoverRequest(msgspec.Struct, frozen=True):
    """The provider's refusal of the last prompt for its length, and the parameters of a smaller one."""

    error: Annotated[Any, Meta(description="The body of the provider's refusal, or its text.")]
    tools: tuple[ToolDefinition, ...] = ()
    next_call: NextCall = NextCall()


class WhyRequest(msgspec.Struct, frozen=True):
    """The prompt to explain: the next one, or that of a past call."""

    call: Annotated[int, Meta(ge=1)] | None = None


class RecallRequest(msgspec.Struct, frozen=True):
    """The reference of an original to return: whole, or the excerpt that the other fields describe."""

    ref: str
    offset: int | None = None
    limit: int | None = None
    unit: str | None = None
    pattern: str | None = None
    context: int | None = None


class SearchRequest(msgspec.Struct, frozen=True):
    """Words to search for in everything that the session ever saw."""

    words: str
    limit: int = 10


class CompactRequest(msgspec.Struct, frozen=True):
    """The parameters of a fold that is made now."""

    instructions: str = ""


class RewindRequest(msgspec.Struct, frozen=True):
    """The earlier entry from which the session goes on."""

    entry_id: str
    reason: str = ""


class InjectRequest(msgspec.Struct, frozen=True):
    """Content to show beside the conversation, in a fence of a kind that the policy names. Blank text removes it."""

    kind: str
    text: str
    key: str | None = None
    attributes: dict[str, str] = {}


class RemindRequest(msgspec.Struct, frozen=True):
    """A text to show in the next call only. The policy must have `remind`."""

    text: str
    name: str = "host"


class AttachRequest(msgspec.Struct, frozen=True):
    """A file to give to the model."""

    name: Annotated[str, Meta(min_length=1, max_length=400)]
    data: Annotated[bytes, Meta(description="The bytes of the file, as base64.")]


class ChildRequest(msgspec.Struct, frozen=True):
    """The parameters of a sub-agent's session, which knows its task, and of its parent only the parts that are named here."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    task: str
    system: str = ""
    inherit_turns: Annotated[int, Meta(ge=0)] = 0
    tools: Annotated[tuple[str, ...], Meta(description="The names of the tools that it may be offered.")] = ()
    fences: tuple[str, ...] = ()
    refs: Annotated[tuple[str, ...], Meta(description="References of the parent whose originals it is given.")] = ()
    model: Annotated[str | None, Meta(description="By default the parent's.")] = None
    policy: Annotated[dict[str, Any] | None, Meta(description="As in a policy file. By default the parent's.")] = None


class EventsRequest(msgspec.Struct, frozen=True):
    """The place of the log after which entries are streamed. The header `last-event-id` says the same and counts more."""

    after: Annotated[int, Meta(ge=0)] = 0


class DeleteRequest(msgspec.Struct, frozen=True):
    """The parameters of the deletion of a session and its children."""

    takeover: Annotated[bool, Meta(description="Even if another process is writing it.")] = False


class SessionList(msgspec.Struct, frozen=True):
    """The sessions of a caller, newest first."""

    sessions: tuple[SessionCard, ...]


class KeptEntry(msgspec.Struct, frozen=True):
    """An entry that is in the log."""

    id: str
    parent: str | None
    time_ms: int
    author: str


class KeptEntries(msgspec.Struct, frozen=True):
    """Entries that are in the log, in their order."""

    entries: tuple[KeptEntry, ...]


class AttachReply(msgspec.Struct, frozen=True):
    """A file as the model is shown it."""

    id: str
    """The entry that shows it."""
    name: str
    kind: str
    media_type: str
    size_bytes: int
    tokens: int
    is_whole: bool
    """Whether all of its text is shown; if not, the rest can be recalled."""
    notes: tuple[str, ...]


class FollowReply(msgspec.Struct, frozen=True):
    """A client's list, compared with the log."""

    outcome: Outcome
    known: int
    written: int
    entries: tuple[str, ...]


class FoldSummary(msgspec.Struct, frozen=True):
    """A fold without its texts."""

    reason: str
    before: int
    after: int
    rebilled: int


class PromptReply(msgspec.Struct, frozen=True):
    """A request for the provider. `request` is its body; Gemini wants the model in the address."""

    session: str
    call: int
    model: str
    dialect: str
    request: dict[str, Any]
    tokens: int
    raw_tokens: int
    """Tokens of the same request with everything in full."""
    limit: int
    fold: FoldSummary | None
    """The fold that was made for it, if one was needed."""
    shown: dict[str, int]
    """The number of entries at each level of detail: `full`, `trimmed`, `covered` …"""
    own_tools: tuple[str, ...]
    """Names of tools that Foveal offers; `serve` answers their calls."""
    renamed_tools: dict[str, str]
    notes: tuple[str, ...]


class ServeReply(msgspec.Struct, frozen=True):
    """The calls of the newest reply that the host has to answer."""

    calls: tuple[ToolCall, ...]


class WhyReply(msgspec.Struct, frozen=True):
    """The explanation of a prompt, one line an entry."""

    tokens: int
    raw_tokens: int
    trace: Trace


class RecallReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """An original, or an excerpt of it with its place and the request for the next one."""

    ref: str
    text: str
    unit: str | None = None
    total: int | None = None
    first: int | None = None
    last: int | None = None
    matches: int | None = None
    next: Fetch | None = None


class SearchReply(msgspec.Struct, frozen=True):
    """The places that answer, best first."""

    hits: tuple[Hit, ...]


class PressureReply(msgspec.Struct, frozen=True):
    """Fullness of the next prompt."""

    tokens: int
    limit: int
    share: float
    level: PressureLevel


class CompactReply(msgspec.Struct, frozen=True):
    """The fold that was made; none if nothing can be folded."""

    fold: FoldSummary | None


class LoggedEntry(msgspec.Struct, frozen=True):
    """The data of one event: an entry, and its place in the log, which is the event's id."""

    seq: int
    entry: Entry


class HealthReply(msgspec.Struct, frozen=True):
    """The health of a gateway whose store answers."""

    status: Literal["ok"] = "ok"


class ApiError(msgspec.Struct, frozen=True):
    """A refusal: the class of the error, and what to do."""

    type: str
    message: str


class ErrorReply(msgspec.Struct, frozen=True):
    """The body of every answer that is no success."""

    error: ApiError
