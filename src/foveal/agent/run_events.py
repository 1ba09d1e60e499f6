"""Events of a run, as one typed union, and the way in which they follow from the log.

Kept events are made of entries and marks of the log, by `events_of`: whoever replays them, in any process, gets the same
ones under the same ids. The others are told as they happen and are gone: words of a reply as they come, the progress of a tool.

| event | kept | of |
|---|---|---|
| `RunStarted` | yes | a mark |
| `StatusChanged` | yes | a mark |
| `UserSpoke`, `FileAttached` | yes | a message of the user, a file that came with it |
| `ModelReplied` | yes | a reply of the model |
| `ToolCalled`, `TodosChanged` | yes | a call in a reply |
| `ToolStarted` | yes | a mark |
| `ToolEnded` | yes | the result of a call |
| `QuestionAsked`, `AnswerGiven` | yes | marks |
| `UsageCounted`, `CostUnknown`, `SummaryBilled` | yes | the usage of a reply, marks of calls without one and of summaries |
| `ContextFolded`, `ContextOverflowed` | yes | a fold, a refusal of the provider |
| `ModelFellBack`, `ModelReminded`, `ChildStarted`, `ChildEnded`, `HandedOver` | yes | marks |
| `WentBack` | yes | a rewind |
| `RunEnded` | yes | the mark of a last status |
| `StepStarted`, `TextCame`, `ThinkingCame` | no | a model call under way |
| `ModelRetried` | no | a failed attempt: the words since `StepStarted` are void |
| `ToolProgressed`, `ToolReturned` | no | a tool under way, and its value for the program |
| `SessionTold` | no | an event of the session: compactions, limits |
| `ChildTold` | no | an event of a sub-agent's run |
| `RunReleased` | no | the end of driving a run that has not ended |
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, get_args

import msgspec

from foveal.agent.near_names import did_you_mean
from foveal.agent.run_marks import (
    ENDED,
    AgentTook,
    CallStarted,
    CallUnbilled,
    ChildBegan,
    ModelNudged,
    ModelSwitched,
    RunBegan,
    RunMark,
    RunStatus,
    SpawnEnded,
    StatusSet,
    SummaryPaid,
    UserAnswered,
    UserAsked,
    mark_in,
)
from foveal.agent.run_state import TODO_TOOL, RunState, run_below, todos_in
from foveal.agent.tools import UserAnswer, UserQuestion
from foveal.agent.usage_cost import usage_usd
from foveal.values.entry import (
    ATTACHED,
    Entry,
    Fold,
    Message,
    Note,
    Overflow,
    Status,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from foveal.values.errors import BadInput
from foveal.values.events import Event

_PLACES = 20
"""Bits of an event's id below the position of its entry."""
_PASSING = 1 << (_PLACES - 1)
"""First number of events that are not kept, behind those of the entry before them."""
_PREVIEW_CHARS = 2_000


class RunScope(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of an event: conversation, run, the run above it, the user's turn and the model's step."""

    session: str
    run: str
    parent: str = ""
    turn: int = 0
    step: int = 0


class _RunEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", omit_defaults=True):
    """Shared fields of all events."""

    id: int = 0
    """Grows within a session, whatever the clock does."""
    time_ms: int = 0
    scope: RunScope


class RunStarted(_RunEvent, frozen=True, tag="run_started"):
    agent: str


class StatusChanged(_RunEvent, frozen=True, tag="status_changed"):
    status: RunStatus
    reason: str = ""
    agent: str = ""


class UserSpoke(_RunEvent, frozen=True, tag="user_spoke"):
    text: str


class FileAttached(_RunEvent, frozen=True, tag="file_attached"):
    text: str
    """The line that tells its name, kind and size."""
    entry: str


class StepStarted(_RunEvent, frozen=True, tag="step_started"):
    model: str
    tokens: int
    limit: int
    dialect: str = ""


class TextCame(_RunEvent, frozen=True, tag="text"):
    text: str


class ThinkingCame(_RunEvent, frozen=True, tag="thinking"):
    text: str


class ModelRetried(_RunEvent, frozen=True, tag="model_retried"):
    because: str
    pause_s: float = 0.0
    attempt: int = 1
    """The attempt that failed, counted from 1."""


class ModelReplied(_RunEvent, frozen=True, tag="model_replied"):
    text: str
    thinking: str = ""
    calls: int = 0
    is_whole: bool = True
    """False for the words of a reply that was cut off."""

    @property
    def is_final(self) -> bool:
        """Whether the reply is an answer, and calls nothing."""
        return self.is_whole and not self.calls


class UsageCounted(_RunEvent, frozen=True, tag="usage"):
    usage: Usage
    usd: float | None = None
    """The cost of the call, by the prices of the policy or the built-in ones; None if they are not known."""


class CostUnknown(_RunEvent, frozen=True, tag="cost_unknown"):
    """A model was asked, and nobody has told how many tokens that took."""

    model: str


class SummaryBilled(_RunEvent, frozen=True, tag="summary_billed"):
    usage: Usage | None = None
    usd: float | None = None
    """Cost of the summariser's call; None if its price is unknown."""


class ToolCalled(_RunEvent, frozen=True, tag="tool_called"):
    call: str
    tool: str
    arguments: str


class ToolStarted(_RunEvent, frozen=True, tag="tool_started"):
    call: str
    tool: str
    key: str


class ToolProgressed(_RunEvent, frozen=True, tag="tool_progressed"):
    call: str
    text: str


class ToolReturned(_RunEvent, frozen=True, tag="tool_returned"):
    call: str
    data: Any


class ToolEnded(_RunEvent, frozen=True, tag="tool_ended"):
    call: str
    status: Status
    text: str
    """The beginning of the result; the whole is in the entry."""
    entry: str


class TodosChanged(_RunEvent, frozen=True, tag="todos_changed"):
    todos: tuple[dict[str, Any], ...]


class QuestionAsked(_RunEvent, frozen=True, tag="question_asked"):
    question: UserQuestion


class AnswerGiven(_RunEvent, frozen=True, tag="answer_given"):
    question: str
    answer: UserAnswer


class ContextFolded(_RunEvent, frozen=True, tag="folded"):
    reason: str
    before: int
    after: int


class ContextOverflowed(_RunEvent, frozen=True, tag="overflowed"):
    """A provider refused a prompt for its length; a smaller one follows."""

    model: str
    limit: int
    because: str


class ModelFellBack(_RunEvent, frozen=True, tag="model_fell_back"):
    model: str
    because: str


class ModelReminded(_RunEvent, frozen=True, tag="model_reminded"):
    why: str


class ChildStarted(_RunEvent, frozen=True, tag="child_started"):
    call: str
    child: str
    agent: str
    is_detached: bool = False


class ChildEnded(_RunEvent, frozen=True, tag="child_ended"):
    """A detached run has ended, and the model is told."""

    child: str
    status: RunStatus


class WentBack(_RunEvent, frozen=True, tag="went_back"):
    """The session went back to an earlier entry, and the run goes on from the conversation there."""

    upto: int
    """Events up to this id are of the conversation that the run goes on from; those between it and this one are of another."""


class HandedOver(_RunEvent, frozen=True, tag="handed_over"):
    """Another agent goes on with the run."""

    agent: str


class ChildTold(_RunEvent, frozen=True, tag="child_told"):
    event: Any
    """An event of the sub-agent's run, with a scope and an id of its own."""
    call: str = ""
    """The call that the sub-agent works for."""


class SessionTold(_RunEvent, frozen=True, tag="session_told"):
    event: Event


class RunReleased(_RunEvent, frozen=True, tag="run_released"):
    """This process drives the run no longer, and it goes on elsewhere: it was left to others, or they have taken it."""


class RunEnded(_RunEvent, frozen=True, tag="run_ended"):
    status: RunStatus
    text: str
    reason: str = ""


RunEvent: TypeAlias = (
    RunStarted
    | StatusChanged
    | UserSpoke
    | FileAttached
    | StepStarted
    | TextCame
    | ThinkingCame
    | ModelRetried
    | ModelReplied
    | UsageCounted
    | CostUnknown
    | SummaryBilled
    | ToolCalled
    | ToolStarted
    | ToolProgressed
    | ToolReturned
    | ToolEnded
    | TodosChanged
    | QuestionAsked
    | AnswerGiven
    | ContextFolded
    | ContextOverflowed
    | ModelFellBack
    | ModelReminded
    | ChildStarted
    | ChildEnded
    | HandedOver
    | WentBack
    | ChildTold
    | SessionTold
    | RunReleased
    | RunEnded
)

PASSING = (
    StepStarted,
    TextCame,
    ThinkingCame,
    ModelRetried,
    ToolProgressed,
    ToolReturned,
    ChildTold,
    SessionTold,
    RunReleased,
)
"""The events that are not kept."""


KINDS: frozenset[str] = frozenset(str(kind.__struct_config__.tag) for kind in get_args(RunEvent))
"""The kinds of events, as JSON names them."""


def event_kinds(named: Iterable[str]) -> frozenset[str]:
    """Return the kinds that somebody asks for. `BadInput`, with the nearest ones, for a name that is none."""
    wanted = frozenset(named)
    if unknown := sorted(wanted - KINDS):
        raise BadInput(f"there are no events of the kind {unknown[0]!r:.80}. {did_you_mean(unknown[0], KINDS)}")
    return wanted


def kind_of(event: RunEvent) -> str:
    """Return the kind of an event."""
    return str(event.__struct_config__.tag)


def is_kept(event: RunEvent) -> bool:
    """Return whether the event can be replayed."""
    return not isinstance(event, PASSING)


def kept_id(seq: int, number: int) -> int:
    """Return the id of an event of the entry at this position."""
    return (seq << _PLACES) | min(number, _PASSING - 1)


def passing_id(last: int) -> int:
    """Return the id of an event that is not kept, told after the event with the id `last`."""
    number, most = last & ((1 << _PLACES) - 1), (1 << _PLACES) - 1
    return last + (number < most) if number >= _PASSING else (last | most) - _PASSING + 1


def place_of(event_id: int) -> int:
    """Return the position of the entry that an event was told after."""
    return event_id >> _PLACES


def scope_of(state: RunState) -> RunScope:
    """Return the place of an event in a run of this state."""
    parent = state.parent or (state.spawned_by.parent if state.spawned_by else "")
    return RunScope(state.session, state.id, parent, state.turn, state.all_steps)


def rewind_events(state: RunState, seq: int, entry: Entry, place: int) -> list[RunEvent]:
    """Return the event of a rewind to this position of the log. `state` is that of the run after it."""
    if not state.run or state.status in ("completed", "cancelled"):
        return []
    return [WentBack(scope=scope_of(state), id=kept_id(seq, 0), time_ms=entry.time_ms, upto=kept_id(place + 1, 0) - 1)]


def events_of(state: RunState, seq: int, entry: Entry) -> list[RunEvent]:
    """Return the events of an entry. `state` is that of the run after it. Before the first run of a session there are none."""
    if not state.run:
        return []
    scope = scope_of(state)
    return [
        msgspec.structs.replace(event, id=kept_id(seq, number), time_ms=entry.time_ms)
        for number, event in enumerate(_told(entry, scope, state))
    ]


def _told(entry: Entry, scope: RunScope, state: RunState) -> Iterator[RunEvent]:
    match entry.body:
        case Message(role="user", parts=(Text(text=text) | Stored(shown=text), *_)) if entry.author == ATTACHED:
            yield FileAttached(scope=scope, text=text.partition("\n")[0], entry=entry.id)
        case Message(role="user") as message:
            yield UserSpoke(scope=scope, text=_text(message))
        case Message(role="assistant") as message:
            yield from _reply(message, scope)
        case Message(role="tool", parts=parts):
            for part in parts:
                if isinstance(part, ToolResult):
                    yield ToolEnded(
                        scope=scope, call=part.call, status=part.status, text=_preview(part), entry=entry.id
                    )
        case Usage() as usage:
            yield UsageCounted(scope=scope, usage=usage, usd=usage_usd(usage, state.models))
        case Fold(reason=reason, before=before, after=after):
            yield ContextFolded(scope=scope, reason=reason, before=before, after=after)
        case Overflow(model=model, limit=limit, because=because):
            yield ContextOverflowed(scope=scope, model=model, limit=limit, because=because)
        case Note() as note:
            yield from _of_mark(note, scope, state)
        case _:
            pass


def _reply(message: Message, scope: RunScope) -> Iterator[RunEvent]:
    thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    is_whole = message.stop == "done"
    calls = [part for part in message.parts if isinstance(part, ToolCall)] if is_whole else []
    yield ModelReplied(scope=scope, text=_text(message), thinking=thinking, calls=len(calls), is_whole=is_whole)
    for call in calls:
        yield ToolCalled(scope=scope, call=call.id, tool=call.name, arguments=call.arguments)
        if call.name == TODO_TOOL:
            yield TodosChanged(scope=scope, todos=tuple(todos_in(call.arguments)))


def _of_mark(note: Note, scope: RunScope, state: RunState) -> Iterator[RunEvent]:
    match mark_in(note):
        case RunBegan(agent=agent):
            yield RunStarted(scope=scope, agent=agent)
            yield StatusChanged(scope=scope, status="pending", agent=agent)
        case StatusSet(status=status, reason=reason, text=text, agent=agent):
            yield StatusChanged(scope=scope, status=status, reason=reason, agent=agent)
            if status in ENDED:
                yield RunEnded(scope=scope, status=status, text=text, reason=reason)
        case CallStarted(call=call, key=key, tool=tool):
            yield ToolStarted(scope=scope, call=call, tool=tool, key=key)
        case UserAsked(question=question):
            yield QuestionAsked(scope=scope, question=question)
        case UserAnswered(question=named, answer=answer):
            yield AnswerGiven(scope=scope, question=named, answer=answer)
        case ModelSwitched(model=model, because=because):
            yield ModelFellBack(scope=scope, model=model, because=because)
        case ModelNudged(why=why):
            yield ModelReminded(scope=scope, why=why)
        case mark:
            yield from _of_agents(mark, scope, state)


def _of_agents(mark: RunMark | None, scope: RunScope, state: RunState) -> Iterator[RunEvent]:
    """Yield the event of a mark about others that work for the run: sub-agents, successors, the summariser."""
    match mark:
        case ChildBegan(call=call, child=named, agent=agent, is_detached=is_detached):
            child = run_below(state, named)
            yield ChildStarted(scope=scope, call=call, child=child, agent=agent, is_detached=is_detached)
        case CallUnbilled(model=model):
            yield CostUnknown(scope=scope, model=model)
        case SummaryPaid(usage=usage, usd=usd):
            yield SummaryBilled(scope=scope, usage=usage, usd=usd)
        case SpawnEnded(child=child, status=status):
            yield ChildEnded(scope=scope, child=run_below(state, child), status=status)
        case AgentTook(agent=agent):
            yield HandedOver(scope=scope, agent=agent)
        case _:
            pass


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _preview(result: ToolResult) -> str:
    shown = (
        one.text if isinstance(one, Text) else one.head if isinstance(one, Stored) else "" for one in result.content
    )
    return "\n".join(filter(None, shown))[:_PREVIEW_CHARS]
