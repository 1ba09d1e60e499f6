"""The loop of an agent without I/O: the next thing to do follows from the state of the run and the calls that are open.

    the user has steered       -> Hear     the words become a message
    another agent is to go on  -> HandOver to it
    calls are open             -> Run      run these, refuse those
    all that is left must wait -> Wait     for the user
    the model has answered     -> Done     with a status
    otherwise                  -> Ask      the model, perhaps for the last time

A driver does it, appends the outcome to the log, reads the state from the log again and asks for the next step.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

import msgspec

from foveal.agent.approvals import ApprovalRule, verdict_on
from foveal.agent.near_names import did_you_mean
from foveal.agent.run_marks import ENDED, RunStatus
from foveal.agent.run_state import CachedResult, RunState, allowed_name
from foveal.agent.tool_calls import CUT_OFF, GIVEN_UP, INTERRUPTED, NO_STEPS, OVERRULED, SKIPPED
from foveal.agent.tools import APPROVAL, BadArguments, Tool, UserAnswer, UserQuestion, question_id
from foveal.values.entry import Status, ToolCall
from foveal.values.errors import BadInput

_MAY_BE_LEFT_OUT = ("question_s", "max_usd")
_MAY_BE_NONE = ("max_checkpoints", "empty_replies", "cut_replies", "todo_reminders", "thin_answer")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Bounds of a run. The numbers are those at which the agents that Foveal's users came from were found to go in circles."""

    max_steps: int = 80
    """Replies of the model; the last one must be an answer."""
    max_checkpoints: int = 10
    """Times that a checkpoint of the model's gives it all steps again."""
    max_calls: int = 300
    """Tool calls of the whole run; after them the model must answer."""
    same_call: int = 5
    """Times in a row that a call may be made with the same arguments; further ones are refused."""
    malformed_calls: int = 4
    """Replies in a row with calls that no tool can take; then the run fails."""
    empty_replies: int = 2
    """Replies in a row that say nothing and are asked for again; then the run fails."""
    cut_replies: int = 3
    """Times that a reply which the provider ended at its limit of tokens is gone on with; then the run fails."""
    todo_reminders: int = 1
    """Times that a model which stops with open todos is told to finish them."""
    thin_answer: int = 0
    """Characters below which an answer is asked for once more, with details; sub-agents are asked so."""
    parallel_calls: int = 8
    """Calls of one reply that run at the same time."""
    max_handoffs: int = 5
    """Times that a run may be handed over to another agent; agents that know each other could do so for ever."""
    queued_at_once: int = 1
    """Messages of the user's that are taken from a queue together."""
    question_s: float | None = None
    """Seconds that a question waits for the user; then an approval is denied, and a tool's question has its stated answer."""

    max_usd: float | None = None
    """Money of the whole run, with its summaries and its sub-agents; no model call is made when it is spent, and the run fails. A
    call whose cost is unknown does not count: that is told."""

    def __post_init__(self) -> None:
        for name in _MAY_BE_LEFT_OUT:
            if (given := getattr(self, name)) is not None and not 0 < given < inf:
                raise BadInput(f"limits: {name} is {given}; it is a number above 0, or is left out")
        for name in self.__struct_fields__:
            if name in _MAY_BE_LEFT_OUT:
                continue
            least = 0 if name in _MAY_BE_NONE else 1
            if getattr(self, name) < least:
                raise BadInput(f"limits: {name} is {getattr(self, name)}; it is a number from {least} on")


class Ask(msgspec.Struct, frozen=True):
    """Ask the model."""

    steps_left: int
    is_last: bool = False
    """Whether it must answer now, without calls."""
    nudge: str = ""
    """Name of the reason for which it is told to go on although it had stopped."""


class ReadyCall(msgspec.Struct, frozen=True):
    """A call that is to be run, with the user's answer to its question, if it had one."""

    call: ToolCall
    key: str
    tool: Tool
    answer: UserAnswer | None = None
    note: str = ""
    """Remark about the arguments, for the model: somebody has edited them."""
    is_at_work: bool = False
    """Whether its tool is at work since before a pause: it is waited for, and never called again."""


class RefusedCall(msgspec.Struct, frozen=True):
    """A call that is not run, and the result that it gets."""

    call: ToolCall
    text: str
    status: Status = "error"
    is_malformed: bool = False
    """Whether it is none that a tool can take."""


class CachedCall(msgspec.Struct, frozen=True):
    """A call whose result is known from an earlier one, and is kept for it."""

    call: ToolCall
    result: CachedResult


class Run(msgspec.Struct, frozen=True):
    """Run these calls, and give the others their results."""

    ready: tuple[ReadyCall, ...]
    refused: tuple[RefusedCall, ...] = ()
    known: tuple[CachedCall, ...] = ()


class Hear(msgspec.Struct, frozen=True):
    """Let messages of the queues become messages of the conversation."""

    steering: int = 0
    following: int = 0


class HandOver(msgspec.Struct, frozen=True):
    """Let another agent go on with the conversation."""

    agent: str


class Wait(msgspec.Struct, frozen=True):
    """Wait for the user's answers to these questions."""

    questions: tuple[UserQuestion, ...]


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do."""

    status: RunStatus
    text: str
    reason: str = ""


LEFT_BRANCH = "the conversation went back to before this run began. Go back to its branch, or begin another run"

_FINAL_STEPS = 2
"""Times that the final answer is asked for of a model that calls tools instead."""

DECISIONS = ("allow", "deny", "edit", "always")

_Decision: TypeAlias = ReadyCall | RefusedCall | CachedCall | UserQuestion
NextStep: TypeAlias = Ask | Run | Hear | HandOver | Wait | Done


def next_step(
    state: RunState,
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    *,
    limits: Limits,
    rules: Iterable[ApprovalRule] = (),
    finalizes: bool = False,
    at_work: Collection[str] = (),
) -> NextStep:
    """Return the next step of a run. `calls` are the calls of the newest reply that have no result.

    `finalizes`: after the answer, the model is asked once more for the final one. `at_work` are the keys of calls whose tool
    goes on since before a pause, where it can be waited for.
    """
    if state.status in ENDED:
        return Done(state.status, state.answer, state.reason)
    if state.run_on_branch != state.run:
        return Done("failed", "", LEFT_BRANCH)
    if state.steering and not calls:
        return Hear(steering=min(len(state.steering), limits.queued_at_once))
    if state.handing and not calls:
        return HandOver(state.handing)
    if calls:
        is_final = finalizes and bool(state.nudges.get("final"))
        return _Decisions(state, tools, limits, tuple(rules), is_final, at_work).step(calls)
    if state.malformed >= limits.malformed_calls:
        return Done("failed", state.answer, f"{state.malformed} replies in a row had calls that no tool can take")
    left = _steps_left(state, limits)
    if state.nudge == "final" and not state.following:  # no reply has followed: the call was given up, or has failed
        return _final(left)
    if state.newest == "answer":
        return _stopped(state, limits, finalizes=finalizes)
    if (
        finalizes and (asked := state.nudges.get("final")) and state.newest == "tool"
    ):  # it has called tools all the same
        return _final(left) if asked < _FINAL_STEPS else Done("completed", state.answer)
    is_rest_of_final = finalizes and bool(state.nudges.get("final")) and state.newest == "cut_off"
    if left <= 0 and not is_rest_of_final:
        return Done("failed", state.answer, f"no answer within {state.all_steps} steps")
    is_circling = max(state.repeated.values(), default=0) >= 2 * limits.same_call
    is_last = left == 1 or state.calls >= limits.max_calls or is_circling or is_rest_of_final
    if state.newest != "cut_off":
        return Ask(left, is_last)
    if (times := state.nudges.get("cut_off", 0)) >= limits.cut_replies:
        return Done("failed", state.answer, f"the reply was cut off {times + 1} times; allow the model longer replies")
    return Ask(max(left, 1), is_last, nudge="cut_off")


def _steps_left(state: RunState, limits: Limits) -> int:
    """Return the replies that the model has left. Only so many checkpoints give it more."""
    place = min(len(state.renewed_at) - 1, limits.max_checkpoints)
    return limits.max_steps - (state.all_steps - state.renewed_at[place])


def _stopped(state: RunState, limits: Limits, *, finalizes: bool) -> NextStep:
    """Return the step after a reply without calls: the end, one more reminder, or the user's next message."""
    left = _steps_left(state, limits)
    is_final = finalizes and bool(state.nudges.get("final"))  # nothing is asked about the outcome itself
    if not is_final and state.todos_open and left > 1 and state.nudges.get("todos", 0) < limits.todo_reminders:
        return Ask(left, nudge="todos")
    if not is_final and 0 < len(state.answer) < limits.thin_answer and left > 1 and not state.nudges.get("thin"):
        return Ask(left, nudge="thin")
    if state.following:
        return Hear(following=min(len(state.following), limits.queued_at_once))
    if finalizes and not is_final:
        return _final(left)
    return Done("completed", state.answer)


def _final(steps_left: int) -> Ask:
    """Return the step that asks for the final answer, whatever steps are left."""
    return Ask(max(steps_left, 1), is_last=True, nudge="final")


class _Decisions(NamedTuple):
    """Everything that decides about the calls of a reply."""

    state: RunState
    tools: Mapping[str, Tool]
    limits: Limits
    rules: tuple[ApprovalRule, ...]
    is_final: bool
    """Whether the reply was to be the final answer, for which no tool may be called."""
    at_work: Collection[str]
    """Keys of calls whose tool goes on since before a pause."""

    def step(self, calls: Sequence[ToolCall]) -> Run | Wait:
        """Return the calls to run and to refuse; the questions that are open, if nothing else is left."""
        keys = self.state.keys_of(calls)
        each = [(call, self._decided(call, key)) for call, key in zip(calls, keys, strict=True)]
        decided = list(self._without_repeats(each))
        ready = tuple(one for one in decided if isinstance(one, ReadyCall))
        refused = tuple(one for one in decided if isinstance(one, RefusedCall))
        questions = tuple(one for one in decided if isinstance(one, UserQuestion))
        known = tuple(one for one in decided if isinstance(one, CachedCall))
        return Run(ready, refused, known) if ready or refused or known else Wait(questions)

    def _without_repeats(self, decided: Iterable[tuple[ToolCall, _Decision]]) -> Iterator[_Decision]:
        """Yield the decisions without those about calls that may get the result of one before them, which has none yet: they are
        left open, and decided about when it has."""
        first = set[str]()
        for call, one in decided:
            tool, said = self.tools.get(call.name), self.state.said.get(call.id, "")
            if tool is not None and tool.cache and isinstance(one, ReadyCall | UserQuestion):
                if said in first:
                    continue
                first.add(said)
            yield one

    def _decided(self, call: ToolCall, key: str) -> _Decision:
        """Return whether a call is run, refused, or waits for the user. One whose tool has begun is not told to be not run."""
        state, limits, tool = self.state, self.limits, self.tools.get(call.name)
        reason = self._hindrance(call, key)
        if key in state.started and (reason or tool is None or tool.retry == "never"):
            decided = None if reason or tool is None or key not in self.at_work else self._approved(call, key, tool)
            if isinstance(decided, ReadyCall):
                return msgspec.structs.replace(decided, is_at_work=True)
            return RefusedCall(call, INTERRUPTED, "interrupted")
        if reason:
            return RefusedCall(call, GIVEN_UP, "interrupted") if key in state.asking else RefusedCall(call, reason)
        if state.is_call_cut and key == state.open[-1][1]:
            return RefusedCall(call, CUT_OFF, is_malformed=True)
        if tool is None:
            told = f"There is no tool {call.name!r}. {did_you_mean(call.name, self.tools)}"
            return RefusedCall(call, told, is_malformed=True)
        if (question := state.question_of(key)) is not None:
            return question
        times = state.repeated.get(call.id, 1)
        if times > limits.same_call and not tool.may_repeat:
            circling = f"{times} times in a row with the same arguments"
            return RefusedCall(
                call, f"[not run: {call.name} was called {circling}. Do something else, or give the answer.]"
            )
        decided = self._approved(call, key, tool)
        is_as_said = isinstance(decided, ReadyCall) and not decided.note
        return self._known(call, tool) or decided if is_as_said else decided

    def _hindrance(self, call: ToolCall, key: str) -> str:
        """Return the reason for which no call may be run now, or not so many; empty if this one may."""
        state, limits = self.state, self.limits
        if state.steering:
            answered = state.answers.keys() & {key, key + APPROVAL}
            if not answered - state.overruled:  # the newer word counts
                return OVERRULED if answered else SKIPPED
        if self.is_final or _steps_left(state, limits) <= 0:
            return NO_STEPS
        before = state.calls - len(state.open)
        place = next((n for n, (_, known) in enumerate(state.open, before + 1) if known == key), 0)
        if place > limits.max_calls:
            return f"[not run: {limits.max_calls} calls are the limit of a run. Answer with the results that you have.]"
        return ""

    def _known(self, call: ToolCall, tool: Tool) -> CachedCall | None:
        """Return the call with the result of an earlier one, if the tool keeps results for as long as that."""
        found = self.state.cached.get(self.state.said.get(call.id, ""))
        if tool.cache is None or found is None or (tool.cache == "turn" and found.turn != self.state.turn):
            return None
        return CachedCall(call, found)

    def _approved(self, call: ToolCall, key: str, tool: Tool) -> ReadyCall | RefusedCall | UserQuestion:
        """Return whether a call that could be run may be: by a rule, or by the user's decision."""
        state, asker = self.state, key + APPROVAL
        rule = verdict_on(self.rules, tool, call.arguments)
        ready = ReadyCall(call, key, tool, state.answers.get(key))
        if rule.verdict == "deny":
            return RefusedCall(call, f"[denied by a rule: {rule.reason or 'this call is not allowed'}]")
        said = state.answers.get(asker)
        # A decision about this call counts before one about all calls of its tool.
        if rule.verdict == "allow" or (said is None and allowed_name(state, call.name) in state.always):
            return ready
        text = rule.reason or f"May {call.name} be called?"
        match said.decision if said else None:
            case None if why := _misfit(tool, call):
                return RefusedCall(call, why, is_malformed=True)
            case None:
                return self._question(call, asker, text)
            case "allow" | "always":
                return ready
            case "edit" if said and said.arguments is not None:
                edited = msgspec.json.encode(said.arguments).decode()
                changed = msgspec.structs.replace(call, arguments=edited)
                why = _misfit(tool, changed)
                if not why and (denying := verdict_on(self.rules, tool, edited)).verdict == "deny":
                    why = f"a rule denies them: {denying.reason or 'this call is not allowed'}"
                if why:
                    return self._question(call, asker, f"{text} Not with the new arguments: {why}")
                note = f"[the user changed the arguments to {edited}]"
                return ReadyCall(changed, key, tool, ready.answer, note)
            case _:
                why = (said.text if said else "") or "no reason was given"
                who = " by the user" if said and said.source == "user" else ""
                return RefusedCall(call, f"[denied{who}: {why}]")

    def _question(self, call: ToolCall, asker: str, text: str) -> UserQuestion:
        """Return the open question whether a call may be made, or a new one."""
        named = question_id(asker, self.state.times_asked.get(asker, 0))
        new = UserQuestion(named, "approval", text, DECISIONS, call.name, call.arguments, self.state.id)
        return self.state.question_of(asker) or new


def _misfit(tool: Tool, call: ToolCall) -> str:
    """Return why a tool cannot take the arguments of a call, so that nobody is asked about it; empty if it can."""
    try:
        tool.check(call.arguments)
    except BadArguments as error:
        return str(error)
    except Exception:  # noqa: BLE001, RUF100 - of the tool's own check: the call says why when it is run
        return ""
    return ""
