"""Everything that is known of a branch besides the messages it shows: counts, marks that hold, the newest summary.

`Facts` is one frozen value and `after` its only writer: the facts after an entry follow from the facts before it, the entry,
and the `Effect` that the entry had on the transcript.
"""

from collections.abc import Iterable

import msgspec

from foveal.text.repair import json_object
from foveal.values.blocks import context_after
from foveal.values.entry import (
    ATTACHED,
    CLIENT,
    ONCE,
    Entry,
    Fence,
    Fold,
    FoldItem,
    LimitForgotten,
    Message,
    News,
    Overflow,
    PromptContext,
    RangeFold,
    Setup,
    ToolCall,
    ToolResult,
    Usage,
    told_id,
)
from foveal.values.own_tools import CHECKPOINT, CHECKPOINT_TOOL, RECALL_TOOL, is_offered, read_checkpoint

SUMMARISED = "summarise"
"""The policy whose range folds share one summary."""

_USAGE_KEPT = 16

_NEWS_KEPT = 64
"""More than any call had; without reminder rules that read them they would gather."""


class LatestSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest summary of a branch, as the base of the next one."""

    state: str = ""
    """Encoded state of the summary, as far as it was `read`. Empty if it is that at `base` and was not fetched from there."""
    prose: str = ""
    """Text that a model or the agent wrote for it."""
    author: str = ""
    base: int = 0
    """Position in the log of the newest fold that keeps the state; 0 for a state that is empty."""
    since: tuple[tuple[int, ...], ...] = ()
    """Positions in the log of the messages covered since `base`, one tuple per fold."""
    read: int = 0
    """Number of the tuples of `since` that `state` has read."""
    rooms: tuple[int, ...] = ()
    """The room of the state after each fold since `base`; the first ones may be left out if they are 0."""

    @property
    def unread(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """The messages that the next summary must read before those that it covers newly, each fold's with its room."""
        return tuple(zip(self.since, self.all_rooms, strict=True))[self.read :]

    @property
    def all_rooms(self) -> tuple[int, ...]:
        """The room of the state after each fold since `base`, of all of them."""
        return (*(0,) * (len(self.since) - len(self.rooms)), *self.rooms)

    @property
    def packed(self) -> "LatestSummary":
        """The same without its state, which follows from the state at `base` and the messages since."""
        return msgspec.structs.replace(self, state="", read=0)


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of a branch up to its newest entry."""

    seq: int = 0
    """Position of the newest entry in the log."""
    head: str | None = None
    """Id of the newest entry."""
    first: str = ""
    """Id of the first entry."""
    calls: int = 0
    """Replies of the model so far."""
    called_ms: int = 0
    """Time of the model's last reply."""
    turns: int = 0
    """Requests of the user so far."""
    first_user: str | None = None
    """Entry of the user's first request."""
    last_user: str | None = None
    """Entry of the user's latest request."""
    raw_tokens: int = 0
    """Tokens of all messages so far, if each were shown in full."""
    is_reduced: bool = False
    """Whether any part was ever shown below full, so that the recall tools are worth offering."""
    is_folded: bool = False
    """Whether a fold was ever applied."""
    folds: int = 0
    fold_seq: int = 0
    """Position of the last fold in the log; 0 if there is none."""
    fold_calls: int = 0
    """`calls` at the last fold."""
    fold_tokens: int = 0
    """Tokens of the transcript after the last fold, as it was recorded."""
    trail: tuple[tuple[int, int], ...] = ()
    """Position and `calls` of folds with a layout: at place k the newest whose number is divisible by two to the power of k.
    Along them, any place of the branch is found in steps that grow with the logarithm of its length."""
    decided: Fold | None = None
    """The fold made for the next call, without its items. None once that call was answered."""
    summary: LatestSummary = LatestSummary()
    checkpoint: str = ""
    """Prose of the agent's last accepted checkpoint, until the next fold."""
    recalled: dict[str, int] = {}
    """How often each reference was fetched since the last fold."""
    usage: tuple[tuple[int, int], ...] = ()
    """(our estimate, the provider's count) of the newest calls."""
    ceilings: dict[str, Overflow] = {}
    """The lowest limit that was learned of each model, until usage contradicts it or somebody forgets it."""
    overflows: int = 0
    """Prompts that the provider refused for their length since its last reply."""
    fences: tuple[Fence, ...] = ()
    """Content that the host put beside the conversation, without fences that were replaced or reported as expired."""
    news: tuple[News, ...] = ()
    """Facts for reminders that the model has not answered yet, the newest `_NEWS_KEPT`."""
    told: int = 0
    """How many of them were in the newest prompt."""
    context: PromptContext | None = None
    """All blocks beside the conversation in the newest prompt."""
    reminded: dict[str, int] = {}
    """The call in which each reminder rule was last delivered."""
    followed: str = ""
    """The id of the newest message that a client told with its list; empty for a session that follows none."""
    said_again: dict[str, str] = {}
    """By the ids of messages that the log had on another branch: the entries that hold them on this one."""
    setup_seq: int = 0
    """Position of the newest `Setup` in the log; 0 if there is none."""
    setup: Setup | None = None
    """The newest `Setup`. A snapshot leaves it out: it is read again from the log."""


class Effect(msgspec.Struct, frozen=True):
    """The effect of one entry on the transcript, as far as facts depend on it."""

    raw_tokens: int = 0
    """Tokens of a message in full."""
    is_reduced: bool = False
    """Whether something is now shown below full, or was folded."""
    is_request: bool = False
    """Whether a user message holds anything that the user said, rather than a harness."""
    answered: tuple[tuple[ToolCall, ToolResult], ...] = ()
    """The open calls that a tool message answered."""
    covered: tuple[int, ...] = ()
    """Positions in the log of the messages that the summary of a fold newly covers."""


NO_EFFECT = Effect()


def after(facts: Facts, seq: int, entry: Entry, effect: Effect = NO_EFFECT) -> Facts:
    """Return the facts after one more entry of the branch."""
    changes: dict[str, object] = {}
    match entry.body:
        case Message() as message:
            changes = _of_message(facts, entry, message, effect)
        case Fold() as fold:
            changes = _of_fold(facts, seq, fold, effect)
        case Usage() as usage:
            changes = _of_usage(facts, usage)
        case Fence() as fence:
            changes = {"fences": (*(old for old in facts.fences if old.identity != fence.identity), fence)}
        case News() as news:
            changes = {"news": (*facts.news, news)[-_NEWS_KEPT:]}
        case PromptContext() as mark:
            changes = {"context": context_after(facts.context, mark, entry.id), "told": len(facts.news)}
        case Overflow() as learned:
            lowest = min(learned, facts.ceilings.get(learned.model, learned), key=lambda one: one.limit)
            changes = {"ceilings": {**facts.ceilings, learned.model: lowest}, "overflows": facts.overflows + 1}
        case LimitForgotten(model):
            changes = {"ceilings": _without(facts.ceilings, model)}
        case Setup() as setup:
            changes = {"setup": setup, "setup_seq": seq}
        case _:
            pass
    if entry.author == CLIENT:
        told = told_id(entry.id)
        changes["followed"] = told
        if told != entry.id:
            changes["said_again"] = {**facts.said_again, told: entry.id}
    return msgspec.structs.replace(facts, seq=seq, head=entry.id, first=facts.first or entry.id, **changes)


def summaries_in(items: Iterable[FoldItem]) -> list[RangeFold]:
    """Return the folds of a batch that belong to the session's summary."""
    return [item for item in items if isinstance(item, RangeFold) and item.policy == SUMMARISED]


def _of_message(facts: Facts, entry: Entry, message: Message, effect: Effect) -> dict[str, object]:
    changes: dict[str, object] = {"raw_tokens": facts.raw_tokens + effect.raw_tokens}
    if effect.is_reduced:
        changes["is_reduced"] = True
    match message.role:
        case "assistant":
            changes |= {"calls": facts.calls + 1, "called_ms": entry.time_ms, "overflows": 0, "decided": None}
            if facts.told:
                changes |= {"news": facts.news[facts.told :], "told": 0}
            if delivered := _delivered(facts):
                changes["reminded"] = {**facts.reminded, **delivered}
            if message.stop == "done" and (recalled := _recalled(facts, message)):
                changes["recalled"] = recalled
        case "user":
            if effect.is_request and entry.author != ATTACHED:
                changes |= {"turns": facts.turns + 1, "first_user": facts.first_user or entry.id, "last_user": entry.id}
        case "tool":
            # A checkpoint counts if its tool was offered, and once it is answered: until then the host may refuse it.
            for call, result in effect.answered:
                if call.name == CHECKPOINT_TOOL and facts.setup and is_offered(CHECKPOINT, facts.setup.tools):
                    changes["checkpoint"] = _checkpoint_prose(call.arguments) if result.status == "ok" else ""
        case "system":
            pass
    return changes


def trail_after(facts: Facts, seq: int) -> tuple[tuple[int, int], ...]:
    """Return the trail of facts whose newest fold has a layout and is at this position."""
    levels = (facts.folds & -facts.folds).bit_length()  # the number is divisible by as many powers of two
    return ((seq, facts.calls),) * levels + facts.trail[levels:]


def _of_fold(facts: Facts, seq: int, fold: Fold, effect: Effect) -> dict[str, object]:
    folded = msgspec.structs.replace(facts, folds=facts.folds + 1)
    return {
        "folds": folded.folds,
        "fold_seq": seq,
        "fold_calls": facts.calls,
        "fold_tokens": fold.after,
        "trail": trail_after(folded, seq) if fold.layout else facts.trail,
        "decided": msgspec.structs.replace(fold, items=(), layout=b""),
        "summary": _summary_after(facts.summary, seq, fold, effect.covered),
        "is_folded": facts.is_folded or effect.is_reduced,
        "is_reduced": facts.is_reduced or effect.is_reduced,
        "recalled": {},
        "checkpoint": "",
    }


def _summary_after(summary: LatestSummary, seq: int, fold: Fold, covered: tuple[int, ...]) -> LatestSummary:
    folds = summaries_in(fold.items)
    written = next((one for one in folds if one.level == "summary"), summary)
    state = next((one.state for one in reversed(folds) if one.state), "")
    if fold.keeps_state:
        return LatestSummary(state, written.prose, written.author, seq)
    since, rooms = summary.since, summary.rooms
    if covered:
        room = max((one.room for one in folds), default=0)
        since, rooms = (*since, covered), (*summary.all_rooms, room) if room or rooms else ()
    read = len(since) if state else summary.read
    return LatestSummary(state or summary.state, written.prose, written.author, summary.base, since, read, rooms)


def _of_usage(facts: Facts, usage: Usage) -> dict[str, object]:
    changes: dict[str, object] = {}
    if usage.estimated:
        changes["usage"] = (*facts.usage, (usage.estimated, usage.input_tokens))[-_USAGE_KEPT:]
    learned = facts.ceilings.get(usage.model)
    if learned and usage.input_tokens > learned.limit:  # the provider took more than it was said to take
        changes["ceilings"] = _without(facts.ceilings, usage.model)
    return changes


def _without(ceilings: dict[str, Overflow], model: str) -> dict[str, Overflow]:
    return {name: learned for name, learned in ceilings.items() if name != model}


def _delivered(facts: Facts) -> dict[str, int]:
    """Return the reminders of the prompt that was answered just now, each with the number of that call."""
    blocks = facts.context.blocks if facts.context else ()
    return {one.name: facts.calls + 1 for block in blocks for one in block.said if not one.name.startswith(ONCE)}


def _checkpoint_prose(arguments: str) -> str:
    """Return the prose of a checkpoint; empty for arguments that are none, whatever a host answered to them."""
    try:
        return read_checkpoint(arguments).prose
    except ValueError:
        return ""


def _recalled(facts: Facts, message: Message) -> dict[str, int]:
    """Return the counts of fetched references after this reply; empty if it fetches none."""
    counts: dict[str, int] = {}
    for part in message.parts:
        if isinstance(part, ToolCall) and part.name == RECALL_TOOL and (asked := json_object(part.arguments)):
            counts = counts or dict(facts.recalled)
            ref = str(asked.get("ref", ""))
            counts[ref] = counts.get(ref, 0) + 1
    return counts
