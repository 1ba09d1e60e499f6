"""Marks of a run in the log of its session: the journal from which a run is resumed, in this process or another one.

A mark is a note, which no model sees: `foveal run {"is":"started","run":2,…}`. Only hosts write notes, so that no model
and no tool can forge one. A mark is durable before anybody is told of it.
"""

from typing import Literal, TypeAlias, TypeVar, cast

import msgspec

from foveal.agent.tools import CacheScope, UserAnswer, UserQuestion
from foveal.text.redaction import Redactor
from foveal.values.codec import sendable
from foveal.values.entry import Note, Usage
from foveal.values.errors import BadInput

S = TypeVar("S", bound=msgspec.Struct)

RunStatus: TypeAlias = Literal["pending", "running", "awaiting_user", "paused", "completed", "failed", "cancelled"]

ENDED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})
"""Statuses after which nothing comes: the next message begins another run."""

AT_REST: frozenset[RunStatus] = frozenset({*ENDED, "awaiting_user", "paused"})
"""Statuses in which nobody works at the run."""

_PREFIX = "foveal run "


class _Mark(msgspec.Struct, frozen=True, tag_field="is", omit_defaults=True):
    """Shared settings of all marks."""


class RunBegan(_Mark, frozen=True, tag="began"):
    """A run begins, with the status `pending`."""

    run: int
    """Its number among the runs of the session, from 1."""
    agent: str
    parent: str = ""
    """The run whose tool call began this one."""
    model: int = 0
    """Place of the model in the agent's chain of models."""
    first_model: str = ""
    """The first model of that chain with its address, as `foveal run --model` takes it; empty in older logs."""
    session: str = ""
    """The name that its session had then, with which the keys of its calls begin: it may be imported under another one. Empty in
    older logs."""


class StatusSet(_Mark, frozen=True, tag="status"):
    """The run has another status from here on."""

    status: RunStatus
    run: int
    agent: str
    """The same as when the run began: whoever lists runs reads the end of a log."""
    reason: str = ""
    text: str = ""
    """The answer of a completed run, or as much as there is of one."""
    parent: str = ""


class RunTaken(_Mark, frozen=True, tag="taken_up"):
    """A run under way was taken up: whoever drove it has died, or has left it."""

    done: int
    """Replies and results of the run and of the runs below it."""


class RunLeft(_Mark, frozen=True, tag="left"):
    """The process that drives the run ends in order, and leaves it to others."""


class ResumedAlone(_Mark, frozen=True, tag="alone"):
    """Somebody has resumed the run of a sub-agent under its own name: until its next status, it goes on although the run above
    may rest."""


class CallStarted(_Mark, frozen=True, tag="started"):
    """A tool is about to run: its effect may have happened from here on."""

    call: str
    key: str
    tool: str
    cache: CacheScope | None = None
    """Scope in which further calls with the same arguments get its result."""


class CallNotBegun(_Mark, frozen=True, tag="not_begun"):
    """The run stopped before a tool was called whose start is in the log: nothing has happened, and it may be run."""

    key: str


class CallMalformed(_Mark, frozen=True, tag="malformed"):
    """No tool can take a call, by its name or by its arguments; written together with its result, before it."""

    call: str


class ReplyTruncated(_Mark, frozen=True, tag="truncated"):
    """The provider ended the reply before it was whole, at its limit of tokens; written together with it."""

    in_call: bool = False
    """Whether it ended in a call, whose arguments may not be all."""


class CallUnbilled(_Mark, frozen=True, tag="unbilled"):
    """A model was asked, and nobody has told how many tokens that took: a stream that broke, or was given up."""

    model: str


class UserAsked(_Mark, frozen=True, tag="asked"):
    """A call waits for the user."""

    question: UserQuestion


class UserAnswered(_Mark, frozen=True, tag="answered"):
    """The user has answered the question of a call."""

    question: str
    answer: UserAnswer


class InboxRead(_Mark, frozen=True, tag="heard"):
    """The messages of the inbox up to this place were taken; written together with their effects."""

    place: int
    entry: str = ""
    """The message at the place: an inbox that has another one there was begun anew. Empty in older logs."""


class MessageQueued(_Mark, frozen=True, tag="queued"):
    """The user has said something that waits for its turn."""

    text: str
    is_steering: bool = False
    """Whether it comes before anything else is done, and not after the answer."""
    letter: int = 0
    """Place of the message in the inbox, which has the files that come with it; 0 if there are none."""
    is_own: bool = False
    """Whether they are words of Foveal's own, that a detached run has ended, and not of the user's."""


class QueueTaken(_Mark, frozen=True, tag="taken"):
    """Messages of the queue became messages of the conversation; written together with them."""

    steering: int = 0
    following: int = 0


class ModelSwitched(_Mark, frozen=True, tag="model"):
    """The run goes on with another model of the agent's chain."""

    place: int
    model: str
    because: str


class FirstModelNamed(_Mark, frozen=True, tag="first_model"):
    """The run was resumed with the first model of its agent: another than it began with, or after a fallback had failed."""

    model: str
    """As `RunBegan.first_model`."""


class ModelNudged(_Mark, frozen=True, tag="nudged"):
    """The model was told to go on although it had stopped: a reply cut off, todos left open, too thin an answer."""

    why: str


class SummaryPaid(_Mark, frozen=True, tag="summary_paid"):
    """The agent's summariser was asked, whether its answer was taken or not."""

    usage: Usage | None = None
    """Tokens of the call, if the summariser tells them."""
    usd: float | None = None
    """None if its price is unknown."""


class ChildBegan(_Mark, frozen=True, tag="child"):
    """A call began a sub-agent's run, or went on with it."""

    call: str
    child: str
    agent: str
    is_detached: bool = False
    """Whether it is a run of its own, which the call does not wait for."""


class SpawnedBy(_Mark, frozen=True, tag="spawned_by"):
    """The session was opened by a call for a detached run; written before the run begins."""

    parent: str
    """The run that made the call."""
    metadata: dict[str, str] = {}


class SpawnEnded(_Mark, frozen=True, tag="spawn_ended"):
    """A detached run has ended, and the model is told; written together with the words for it."""

    child: str
    status: RunStatus


class HandoffAsked(_Mark, frozen=True, tag="handoff"):
    """Another agent is to take over as soon as no call is open; written together with the result of the call."""

    agent: str
    reason: str = ""


class AgentTook(_Mark, frozen=True, tag="took"):
    """Another agent has taken over the conversation; written together with its instructions."""

    agent: str
    first_model: str = ""
    """The first model of this agent, as `RunBegan.first_model`; empty in older logs."""


RunMark: TypeAlias = (
    RunBegan
    | StatusSet
    | RunTaken
    | RunLeft
    | ResumedAlone
    | CallStarted
    | CallNotBegun
    | CallMalformed
    | CallUnbilled
    | ReplyTruncated
    | UserAsked
    | UserAnswered
    | InboxRead
    | MessageQueued
    | QueueTaken
    | ModelSwitched
    | FirstModelNamed
    | ModelNudged
    | SummaryPaid
    | ChildBegan
    | SpawnedBy
    | SpawnEnded
    | HandoffAsked
    | AgentTook
)
_DECODER = msgspec.json.Decoder(RunMark)


_WORDS = frozenset({"text", "reason", "because", "options", "otherwise", "arguments", "metadata"})
"""Fields of marks and of messages in an inbox that hold words of people, models and tools. All others are names and numbers."""


def to_note(mark: RunMark, redact: Redactor | None = None) -> Note:
    """Return the mark as an entry of a log, without the secrets in its words if somebody looks for them. `BadInput` for one that
    could not be read again."""
    return Note(_PREFIX + encoded_words(mark, redact))


def encoded_words(value: msgspec.Struct, redact: Redactor | None = None) -> str:
    """Return a mark, or a message of an inbox, as JSON: redacted if somebody looks for secrets, and with half characters, which
    UTF-8 has not, replaced.

    `BadInput` if it could not be read again: a value of a wrong type would be kept, and then be no mark at all.
    """
    try:
        text = _encoded(value, redact)
        msgspec.json.decode(text, type=type(value))
    except RecursionError:
        raise BadInput("the arguments are nested too deeply to be kept; some hundred levels are the most") from None
    except (msgspec.MsgspecError, TypeError, OverflowError) as error:
        raise BadInput(f"{type(value).__name__} cannot be kept: {error}") from None
    return text


def _encoded(value: msgspec.Struct, redact: Redactor | None) -> str:
    try:
        return msgspec.json.encode(value if redact is None else redacted_words(value, redact)).decode()
    except UnicodeEncodeError:
        whole = redacted_words(value, sendable)
        return msgspec.json.encode(whole if redact is None else redacted_words(whole, redact)).decode()


def redacted_words(value: S, redact: Redactor) -> S:
    """Return a mark, or a message of an inbox, with its words redacted as those of an entry are."""
    changed = dict[str, object]()
    for name in value.__struct_fields__:
        held = getattr(value, name)
        if name in _WORDS:
            changed[name] = _redacted(held, redact)
        elif isinstance(held, msgspec.Struct):
            changed[name] = redacted_words(held, redact)
    return msgspec.structs.replace(value, **changed)


def _redacted(words: object, redact: Redactor) -> object:
    """Return a text redacted, or a value of JSON with its texts redacted: each alone, and then all as the arguments of a call
    are, in which a name tells that its value is a secret."""
    clean = _redacted_texts(words, redact)
    if not isinstance(clean, dict | list):
        return clean
    text = msgspec.json.encode(cast("object", clean)).decode()
    if (whole := redact(text)) == text:
        return cast("object", clean)
    try:
        return msgspec.json.decode(whole)
    except msgspec.DecodeError:  # a rule that knows no JSON has taken out more than a text
        return cast("object", clean)


def _redacted_texts(words: object, redact: Redactor) -> object:
    if isinstance(words, str):
        return redact(words)
    if isinstance(words, dict):
        named = cast("dict[str, object]", words).items()
        return {redact(key): _redacted_texts(held, redact) for key, held in named}
    if isinstance(words, list | tuple):
        return [_redacted_texts(one, redact) for one in cast("list[object]", words)]
    return words


def mark_in(note: Note) -> RunMark | None:
    """Return the mark that a note holds; None for any other note, and for a mark of a newer Foveal."""
    if not note.text.startswith(_PREFIX):
        return None
    try:
        return _DECODER.decode(note.text.removeprefix(_PREFIX))
    except (msgspec.MsgspecError, RecursionError):
        return None


_NUMBER_DIGITS = 18
"""More than the number of any run has. Python reads no number of some thousand digits, which a caller may well send."""


def run_name(session: str, number: int) -> str:
    """Return the id of a run: its session and its number, so that the run is found without any register."""
    return f"{session}#{number}"


def split_run(run: str) -> tuple[str, int | None]:
    """Return the session and the number of a run's id; None for the newest run of a session that is named alone."""
    session, mark, number = run.rpartition("#")
    is_number = number.isdecimal() and len(number) <= _NUMBER_DIGITS
    return (session, int(number)) if mark and is_number else (run, None)
