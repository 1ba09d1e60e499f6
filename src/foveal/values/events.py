"""Events of a session that hosts can watch, and the pressure of the prompt.

Each event is one frozen value of the union `Event`; `str(event)` is a line for people, without any content of the conversation.
The table `KINDS` says which of them the log keeps, so that another process can read them, and how loud each is in `logging`.
"""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from foveal.values.errors import BadPolicy

CODE = "code"
"""Author of a summary that the engine alone wrote."""

PressureLevel: TypeAlias = Literal["none", "info", "warning", "critical"]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Shares of the limit, in tokens, at which each level of pressure begins."""

    info: float = 0.7
    warning: float = 0.8
    critical: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.info < self.warning < self.critical <= 1:
            raise BadPolicy(
                f"pressure is info {self.info}, warning {self.warning}, critical {self.critical}; "
                "they are shares of the limit that rise, above 0 and up to 1"
            )

    def level(self, used_tokens: int, limit_tokens: int) -> "Literal['info', 'warning', 'critical'] | None":
        """Return the highest level that this many tokens reach; None below all of them."""
        for level in ("critical", "warning", "info"):
            if used_tokens >= getattr(self, level) * limit_tokens:
                return level
        return None


class Pressure(msgspec.Struct, frozen=True):
    """Fullness of the next prompt."""

    tokens: int
    limit: int
    """Above this a fold is due."""
    thresholds: Thresholds = Thresholds()

    @property
    def share(self) -> float:
        return self.tokens / self.limit if self.limit > 0 else 1.0

    @property
    def level(self) -> PressureLevel:
        return self.thresholds.level(self.tokens, self.limit) or "none"


def _tag(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class _Told(msgspec.Struct, frozen=True, tag_field="event", tag=_tag):
    """Shared settings of all events: as JSON, the field `event` has the kind."""

    session: str

    def __str__(self) -> str:
        return f"{self.session}: {self._line()}"

    def _line(self) -> str:
        raise NotImplementedError


class PromptBuilt(_Told, frozen=True):
    """A prompt is ready to be sent."""

    call: int
    model: str
    tokens: int
    limit: int
    """The most tokens that may be sent."""
    dialect: str
    fold: str = ""
    """Reason of the fold that was made for it; empty if none was."""

    def _line(self) -> str:
        folded = f", folded ({self.fold})" if self.fold else ""
        return f"prompt {self.call} for {self.model}: {self.tokens:,} of {self.limit:,} tokens{folded}"


class PromptRefused(_Told, frozen=True):
    """No prompt could be built that fits, or the provider refused every smaller one."""

    because: str

    def _line(self) -> str:
        return f"no prompt: {self.because}"


class PressureChanged(_Told, frozen=True):
    """The prompt reached another level of pressure than the one before it."""

    level: PressureLevel
    before: PressureLevel
    tokens: int
    limit: int
    """Above this a fold is due."""

    def _line(self) -> str:
        return f"pressure {self.before} -> {self.level}: {self.tokens:,} tokens, a fold is due above {self.limit:,}"


class CompactionStarted(_Told, frozen=True):
    """A fold was planned, and its summary is being written."""

    reason: str
    before: int

    def _line(self) -> str:
        return f"folding {self.before:,} tokens ({self.reason})"


class CompactionEnded(_Told, frozen=True):
    """A fold is made."""

    reason: str
    before: int
    after: int
    rebilled: int
    """Tokens that the provider's cache no longer serves because the prefix moved."""
    author: str
    """Author of the summary's prose; `code` if only the engine wrote it."""
    duration_ms: int | None
    """None where the event was read from the log."""
    cost_usd: float | None = None
    """Cost of the summariser's own call; None if no summariser was asked or it did not report one."""

    def _line(self) -> str:
        took = "" if self.duration_ms is None else f" in {self.duration_ms:,} ms"
        sizes = f"{self.before:,} -> {self.after:,} tokens, {self.rebilled:,} billed anew"
        return f"folded {sizes}, by {self.author}{took} ({self.reason})"


class SummaryRefused(_Told, frozen=True):
    """A summariser's answer was refused; the engine's own summary is used."""

    author: str
    why: str
    detail: str
    duration_ms: int

    def _line(self) -> str:
        return f"the summary of {self.author} was not taken: {self.why}"


class LimitLearned(_Told, frozen=True):
    """A provider was found to accept less than was assumed: prompts are smaller from here on, if `is_applied`."""

    model: str
    limit: int
    because: str
    is_applied: bool
    """False for a limit that usage alone tells, under a policy with a limit of its own."""

    def _line(self) -> str:
        effect = "" if self.is_applied else "; the policy's own limit holds"
        return f"{self.model} accepts {self.limit:,} tokens{effect} ({self.because})"


class LimitLifted(_Told, frozen=True):
    """A limit that was learned of a model no longer holds."""

    model: str

    def _line(self) -> str:
        return f"the learned limit of {self.model} no longer holds"


class ModelChanged(_Told, frozen=True):
    """The next prompts are for another model; its cache knows nothing of them."""

    before: str
    model: str
    limit: int

    def _line(self) -> str:
        return f"model {self.before} -> {self.model}, {self.limit:,} tokens"


class UsageReported(_Told, frozen=True):
    """The provider told its count of a call."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    estimated: int | None
    """Our own count of the same prompt."""
    reasoning_tokens: int | None = None
    """The part of the output that was thinking; None where the provider does not tell it."""

    def _line(self) -> str:
        cached = f"{self.cache_read_tokens:,} from the cache, {self.cache_write_tokens:,} written to it"
        return f"{self.model} counted {self.input_tokens:,} in ({cached}) and {self.output_tokens:,} out"


class Recalled(_Told, frozen=True):
    """The model asked for an original, or searched for one."""

    tool: str

    def _line(self) -> str:
        return f"recall by {self.tool}"


class Checkpointed(_Told, frozen=True):
    """The agent wrote a checkpoint: its own account of the state of the work."""

    def _line(self) -> str:
        return "checkpoint by the agent"


class NoteRemembered(_Told, frozen=True):
    """The agent kept or forgot a note of its scope."""

    def _line(self) -> str:
        return "note kept or forgotten by the agent"


class Rewound(_Told, frozen=True):
    """The session goes on from an earlier entry."""

    entry: str | None
    reason: str

    def _line(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"rewound to {self.entry or 'the beginning'}{reason}"


class SessionLost(_Told, frozen=True):
    """Another process took the session over: nothing more is written from here."""

    because: str

    def _line(self) -> str:
        return f"lost: {self.because}"


Event: TypeAlias = (
    PromptBuilt
    | PromptRefused
    | PressureChanged
    | CompactionStarted
    | CompactionEnded
    | SummaryRefused
    | LimitLearned
    | LimitLifted
    | ModelChanged
    | UsageReported
    | Recalled
    | Checkpointed
    | NoteRemembered
    | Rewound
    | SessionLost
)


class EventKind(NamedTuple):
    """The treatment of one kind of event."""

    is_kept: bool
    """Whether the log has it, so that it can be read later and by others. The rest is told while it happens and then gone."""
    log_level: int
    """Its level in `logging`, under the logger `foveal.session`."""


_DEBUG, _INFO, _WARNING, _ERROR = 10, 20, 30, 40

KINDS: Mapping[type[Event], EventKind] = MappingProxyType(
    {
        PromptBuilt: EventKind(is_kept=False, log_level=_DEBUG),
        PromptRefused: EventKind(is_kept=False, log_level=_WARNING),
        PressureChanged: EventKind(is_kept=False, log_level=_INFO),
        CompactionStarted: EventKind(is_kept=False, log_level=_DEBUG),
        CompactionEnded: EventKind(is_kept=True, log_level=_INFO),
        SummaryRefused: EventKind(is_kept=False, log_level=_WARNING),
        LimitLearned: EventKind(is_kept=True, log_level=_WARNING),
        LimitLifted: EventKind(is_kept=True, log_level=_INFO),
        ModelChanged: EventKind(is_kept=True, log_level=_INFO),
        UsageReported: EventKind(is_kept=True, log_level=_DEBUG),
        Recalled: EventKind(is_kept=True, log_level=_DEBUG),
        Checkpointed: EventKind(is_kept=True, log_level=_INFO),
        NoteRemembered: EventKind(is_kept=True, log_level=_INFO),
        Rewound: EventKind(is_kept=True, log_level=_INFO),
        SessionLost: EventKind(is_kept=False, log_level=_ERROR),
    }
)

Listener: TypeAlias = Callable[[Event], None]


def tell(listener: Listener, event: Event) -> None:
    """Call the listener. Its failure becomes a warning: a watcher must not end the session."""
    try:
        listener(event)
    except Exception as error:
        warnings.warn(f"on_event raised {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)


def all_of(*listeners: Listener) -> Listener:
    """Return a listener that tells each event to all of these; the failure of one keeps it from none of the others."""

    def tell_all(event: Event) -> None:
        for listener in listeners:
            tell(listener, event)

    return tell_all


def ignore(_event: Event) -> None:
    """Do nothing: the listener of a session without one."""
