"""The state of a run, which follows from the log of its session alone: one entry after the other, without any I/O.

`after` is the only writer. The same function reads a run that goes on in this process, one that a dead process left
behind, and one that somebody only looks at.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

from foveal.agent.run_marks import (
    ENDED,
    AgentTook,
    CallMalformed,
    CallNotBegun,
    CallStarted,
    CallUnbilled,
    ChildBegan,
    FirstModelNamed,
    HandoffAsked,
    InboxRead,
    MessageQueued,
    ModelNudged,
    ModelSwitched,
    QueueTaken,
    ReplyTruncated,
    RunBegan,
    RunLeft,
    RunMark,
    RunStatus,
    RunTaken,
    SpawnedBy,
    SpawnEnded,
    StatusSet,
    UserAnswered,
    UserAsked,
    mark_in,
    run_name,
)
from foveal.agent.tools import CacheScope, UserAnswer, UserQuestion, asker_of
from foveal.dialects.json_values import fields, mapping, sequence
from foveal.text.repair import json_object
from foveal.values.entry import ATTACHED, Body, Entry, Message, Note, Setup, Text, ToolCall, ToolResult, Usage
from foveal.values.own_tools import CHECKPOINT_TOOL

Newest: TypeAlias = Literal["nothing", "user", "tool", "answer", "cut_off"]

TODO_TOOL = "todo_write"
_CLOSED = ("completed", "done", "cancelled")
_OF_SESSION = frozenset(
    {
        "session",
        "seq",
        "inbox",
        "turn",
        "always",
        "newest",
        "open",
        "unanswered",
        "tools",
        "todos",
        "told",
        "cached",
        "spawned",
        "spawned_by",
        "models",
    }
)
"""Fields that the next run of a session goes on with."""

_OF_BRANCH = (
    "run_on_branch",
    "newest",
    "answer",
    "open",
    "unanswered",
    "tools",
    "repeated",
    "malformed",
    "unfit",
    "is_call_cut",
    "said",
    "caching",
    "started",
    "asking",
    "asked",
    "answers",
    "overruled",
    "nudge",
    "nudges",
    "todos",
    "told",
    "handing",
)
"""Fields that tell of the conversation: they go back with it. All others are counted for the run, or for the session."""

_OF_AGENT = ("agent", "first_model", "model", "handoffs")
"""Fields that tell which agent has the run: they go back with the conversation to before another one took over."""


class RunUsage(msgspec.Struct, frozen=True):
    """The model calls of a run, added up."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int | None = None
    """The part of the output that was thinking, in the calls that tell it; None if none does."""

    def plus(self, usage: Usage) -> "RunUsage":
        """Return the sum with one more call."""
        told = [one for one in (self.reasoning_tokens, usage.reasoning_tokens) if one is not None]
        return RunUsage(
            self.calls + 1,
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
            self.cache_read_tokens + usage.cache_read_tokens,
            self.cache_write_tokens + usage.cache_write_tokens,
            sum(told) if told else None,
        )


class CachedResult(msgspec.Struct, frozen=True):
    """A result that is kept for further calls: of the user's turn, or of the whole session."""

    entry: str
    call: str
    scope: CacheScope
    turn: int


class RunState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about the newest run of a session that decides how it goes on."""

    session: str
    seq: int = 0
    """Position of the newest entry in the log."""
    run: int = 0
    """Number of the newest run; 0 before the first."""
    run_on_branch: int = 0
    """Number of the newest run that began on this branch of the conversation. Another one than `run` if the user went back to
    before that began."""
    named: str = ""
    """The name of the session when the run began, with which the keys of its calls begin; empty in older logs."""
    agent: str = ""
    parent: str = ""
    status: RunStatus | None = None
    reason: str = ""
    model: int = 0
    first_model: str = ""
    """The first model of the agent when the run began, when the agent took over, or when the run was resumed, with its address;
    empty in older logs."""
    inbox: InboxRead = InboxRead(0)
    """The newest message of the inbox that was taken, for the session and not for the run."""
    turn: int = 0
    """Messages of the user in this session."""
    all_steps: int = 0
    """Replies of the model in this run."""
    renewed_at: tuple[int, ...] = (0,)
    """Steps at which the model had all steps of its limit before it: when its agent began, and at each checkpoint since."""
    calls: int = 0
    """Tool calls in this run, of the agent that goes on with it."""
    results: int = 0
    """Results of calls in this run."""
    take_ups: int = 0
    """Times in a row that the run was taken up without one more reply or result."""
    done: int = 0
    """Replies and results of the run and of those below it, when it was last taken up."""
    newest: Newest = "nothing"
    answer: str = ""
    """The last words of the model in this run."""
    open: tuple[tuple[str, str], ...] = ()
    """Id and key of each call in the newest reply."""
    unanswered: int = 0
    """Calls in the newest reply that have no result yet."""
    tools: Mapping[str, str] = {}
    """Tool of each call in the newest reply, by the key of the call."""
    repeated: Mapping[str, int] = {}
    """Times that each call in the newest reply was made in a row with the same arguments, by the id of the call."""
    malformed: int = 0
    """Replies in a row with a call whose arguments, or whose tool, do not exist."""
    malformed_at: int = 0
    """Steps at which such a reply was counted last."""
    unfit: frozenset[str] = frozenset()
    """Ids of calls in the newest reply that are such."""
    is_call_cut: bool = False
    """Whether the newest reply ended in its last call, before that was whole."""
    said: Mapping[str, str] = {}
    """Tool and arguments of each call in the newest reply, as a hash, by the id of the call."""
    caching: Mapping[str, CacheScope] = {}
    """Scope in which the result of a call in the newest reply is to be kept for others, by the id of the call."""
    cached: Mapping[str, "CachedResult"] = {}
    """Results that further calls of the same tool with the same arguments get, by the hash of both."""
    started: frozenset[str] = frozenset()
    """Keys of calls in the newest reply whose tool has begun to run."""
    asking: frozenset[str] = frozenset()
    """Keys of calls in the newest reply whose tool has begun to run, and has then asked the user."""
    asked: Mapping[str, UserQuestion] = {}
    """Open questions by their ids."""
    answers: Mapping[str, UserAnswer] = {}
    """Answers to the questions of calls in the newest reply, by who asked: a key, or one with `APPROVAL`."""
    overruled: frozenset[str] = frozenset()
    """Those of them whose answer is older than words by which the user steers."""
    always: frozenset[str] = frozenset()
    """Tools that the user has allowed for the rest of the session, as `allowed_name` has them."""
    nudge: str = ""
    """The reason for which the model was told to go on although it had stopped, until a reply has followed."""
    nudges: Mapping[str, int] = {}
    """Times that a reply has followed such words, by their reason, since the user was heard."""
    todos: tuple[dict[str, Any], ...] = ()
    """The todos that the model has written last, on this branch."""
    told: str = ""
    """The agent whose instructions are the newest that this branch holds; empty before the first run on it."""
    times_asked: Mapping[str, int] = {}
    """Times that each call has asked, by who asks, also on branches that were left: no question has the id of another."""
    children: Mapping[str, str] = {}
    """Runs of sub-agents by the keys of the calls that began them."""
    spawned: tuple[str, ...] = ()
    """Detached runs of the session, of whose ends the model was not told yet."""
    spawned_by: SpawnedBy | None = None
    """The call that opened the session for a detached run."""
    handing: str = ""
    """The agent that is to take over as soon as no call is open."""
    handoffs: int = 0
    """Times that the run was handed over, on this branch."""
    steering: tuple[MessageQueued, ...] = ()
    """Messages of the user that come before anything else is done."""
    following: tuple[MessageQueued, ...] = ()
    """Messages of the user that come after the answer."""
    models: Mapping[str, Mapping[str, Any]] = {}
    """Facts about models that the newest policy with such facts has, beside the built-in ones: prices among them."""
    usage: Mapping[str, RunUsage] = {}
    """The model calls of the run, by model."""
    is_billed: bool = False
    """Whether the price of the newest model call was told, as unknown perhaps; or no call was under way when the run was left."""

    @property
    def is_asking(self) -> bool:
        """Whether a model is asked next; by a process that has died, it was asked already, and nobody has told the price."""
        has_answered = self.newest == "answer" and not self.nudge
        return self.status == "running" and not (has_answered or self.unanswered or self.is_billed)

    @property
    def todos_open(self) -> int:
        """Todos that are neither done nor given up."""
        return sum(one.get("status") not in _CLOSED for one in self.todos)

    @property
    def id(self) -> str:
        """The id of the run."""
        return run_name(self.session, self.run)

    def question_of(self, asker: str) -> UserQuestion | None:
        """Return the open question of a call, by its key; None if it has none."""
        return next((one for one in self.asked.values() if asker_of(one.id) == asker), None)

    def keys_of(self, calls: Iterable[ToolCall]) -> list[str]:
        """Return the keys of calls that have no result yet. Of calls with one id, the last ones are those left."""
        left: dict[str, list[str]] = {}
        for call, key in self.open:
            left.setdefault(call, []).append(key)
        waiting = list(calls)
        keys: list[str] = []
        for number, call in enumerate(waiting):
            same = sum(one.id == call.id for one in waiting[number:])
            known = left.get(call.id, ())
            keys.append(known[-same] if same <= len(known) else f"{call.id}.{number}")
        return keys


def after(state: RunState, seq: int, entry: Entry) -> RunState:
    """Return the state after an entry."""
    changed = {} if entry.author == ATTACHED else _changes(state, entry.body, entry.id)
    return msgspec.structs.replace(state, seq=seq, **changed)


def rewound(state: RunState, seq: int, earlier: RunState, begun: Collection[str]) -> RunState:
    """Return the state after the session went back to an entry at which `earlier` was its state. The conversation is that of
    the entry, and so is the agent; steps, costs and wishes are still counted.

    `begun` has the keys of all calls whose tool has begun to run: a call that is open again has begun all the same.
    """
    changed = {name: getattr(earlier, name) for name in _OF_BRANCH}
    changed["started"] = earlier.started.union(key for _, key in earlier.open if key in begun)
    is_handed_back = earlier.run == state.run and earlier.agent != state.agent
    if is_handed_back:  # to an agent that has all its steps and calls, as one that takes over
        changed |= {name: getattr(earlier, name) for name in _OF_AGENT}
        changed |= {"renewed_at": (state.all_steps,), "calls": len(earlier.open)}
    return msgspec.structs.replace(state, seq=seq, **changed)


def _changes(state: RunState, body: Body, entry_id: str) -> dict[str, Any]:
    match body:
        case Message(role="user"):
            return {"newest": "user", "turn": state.turn + 1, "repeated": {}, "malformed": 0, "is_billed": False}
        case Message(role="assistant"):
            return _reply(state, body, entry_id)
        case Message(role="tool"):
            return {"newest": "tool", "is_billed": False, **_results(state, body, entry_id)}
        case Usage() if state.status not in ENDED:  # otherwise of somebody who uses the session between its runs
            used = state.usage.get(body.model, RunUsage()).plus(body)
            return {"usage": {**state.usage, body.model: used}, "is_billed": True}
        case Note():
            return _mark(state, body)
        case Setup(policy=policy):
            return {"models": _models_in(policy)}
        case _:
            return {}


def _models_in(policy: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the facts about models that a policy has, which is canonical JSON."""
    if '"models"' not in policy:
        return {}
    return {name: fields(facts) for name, facts in fields(fields(json_object(policy)).get("models")).items()}


def _reply(state: RunState, message: Message, entry_id: str) -> dict[str, Any]:
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    if state.nudge == "cut_off":  # it goes on with the words before it
        text = state.answer + text
    if message.stop != "done":
        return {
            "newest": "cut_off" if message.stop == "aborted" and text else state.newest,
            "answer": text or state.answer,
        }
    calls = [(place, part) for place, part in enumerate(message.parts) if isinstance(part, ToolCall)]
    keys = tuple((call.id, f"{state.named or state.session}/{entry_id}.{place}") for place, call in calls)
    said = {call.id: _hash_of(call) for _, call in calls}
    changed: dict[str, Any] = {
        "newest": "answer",
        "answer": text or (state.answer if calls else ""),
        "open": keys,
        "unanswered": len(calls),
        "tools": {key: call.name for (_, key), (_, call) in zip(keys, calls, strict=True)},
        "all_steps": state.all_steps + 1,
        "calls": state.calls + len(calls),
        "said": said,
        "repeated": _times_in_a_row(state, said),
        "caching": {},
        "unfit": frozenset[str](),
        "is_call_cut": False,
        "started": frozenset[str](),
        "asking": frozenset[str](),
        "asked": {},
        "answers": {},
        "overruled": frozenset[str](),
    }
    if why := state.nudge:
        changed |= {"nudge": "", "nudges": {**state.nudges, why: state.nudges.get(why, 0) + 1}}
    for _, call in calls:
        if call.name == CHECKPOINT_TOOL:
            changed["renewed_at"] = (*state.renewed_at, state.all_steps + 1)
        if call.name == TODO_TOOL:
            changed["todos"] = tuple(todos_in(call.arguments))
    return changed


def _hash_of(call: ToolCall) -> str:
    """Return the hash of a tool and its arguments, however those are written."""
    said = f"{call.name} {msgspec.json.encode(json_object(call.arguments), order='sorted').decode()}"
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _times_in_a_row(state: RunState, said: Mapping[str, str]) -> dict[str, int]:
    """Return the times that each call of a reply was made in a row: in this reply before it, and in the replies before."""
    times: dict[str, int] = {}
    for call, hashed in state.said.items():
        times[hashed] = max(times.get(hashed, 0), state.repeated.get(call, 0))
    found: dict[str, int] = {}
    for call, hashed in said.items():
        found[call] = times[hashed] = times.get(hashed, 0) + 1
    return found


def _results(state: RunState, message: Message, entry_id: str) -> dict[str, Any]:
    """Return the counts of results and of malformed calls, and the results that are kept for further calls."""
    malformed, malformed_at, cached = state.malformed, state.malformed_at, dict(state.cached)
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.call not in state.unfit:
                malformed = 0
            elif malformed_at != state.all_steps:  # once for all calls of a reply: the model has read no reason yet
                malformed, malformed_at = malformed + 1, state.all_steps
            if part.status == "ok" and (scope := state.caching.get(part.call)) and part.call in state.said:
                cached[state.said[part.call]] = CachedResult(entry_id, part.call, scope, state.turn)
    results = sum(isinstance(part, ToolResult) for part in message.parts)
    counted = {"malformed": malformed, "malformed_at": malformed_at}
    left = max(0, state.unanswered - results)
    return {**counted, "cached": cached, "results": state.results + results, "unanswered": left}


def todos_in(arguments: str) -> list[dict[str, Any]]:
    """Return the todos that a call writes."""
    listed = sequence((json_object(arguments) or {}).get("todos")) or ()
    return [dict(fields(one)) for one in listed if mapping(one) is not None]


def _mark(state: RunState, note: Note) -> dict[str, Any]:
    match mark_in(note):
        case RunBegan() as began:
            fresh = RunState(state.session)
            reset = {name: getattr(fresh, name) for name in RunState.__struct_fields__ if name not in _OF_SESSION}
            own = {
                "run": began.run,
                "run_on_branch": began.run,
                "agent": began.agent,
                "parent": began.parent,
                "model": began.model,
                "first_model": began.first_model,
                "named": began.session,
                "told": began.agent,
            }
            # Words that a failed run has not heard are heard by this one; whoever cancels a run decides about those of it.
            steering = tuple(one for one in state.steering if one.is_own or state.status != "cancelled")
            waiting = {"steering": steering, "following": () if state.status == "cancelled" else state.following}
            return {**reset, **own, **waiting, "status": "pending"}
        case StatusSet(status=status, reason=reason):
            return {"status": status, "reason": reason, "take_ups": 0, "is_billed": False}
        case CallStarted(call=call, key=key, cache=scope):
            caching = {**state.caching, call: scope} if scope else state.caching
            return {"started": state.started | {key}, "caching": caching}
        case CallNotBegun(key=key):
            return {"started": state.started - {key}}
        case CallMalformed(call=call):
            return {"unfit": state.unfit | {call}}
        case UserAsked(question=question):
            asker = asker_of(question.id)
            answers = {key: one for key, one in state.answers.items() if key != asker}
            asking = state.asking | ({asker} & state.started)
            started = state.started - {asker}  # it is called again with the answer, which is a start of its own
            asked = {**state.asked, question.id: question}
            times = {**state.times_asked, asker: state.times_asked.get(asker, 0) + 1}
            changed = {"asked": asked, "answers": answers, "started": started}
            return {**changed, "asking": asking, "times_asked": times}
        case UserAnswered(question=named, answer=answer):
            return _answered(state, named, answer)
        case InboxRead() as read:
            return {"inbox": read}
        case MessageQueued() as queued:
            if not queued.is_steering:
                return {"following": (*state.following, queued)}
            overruled = state.overruled if queued.is_own else frozenset(state.answers)
            return {"steering": (*state.steering, queued), "overruled": overruled}
        case QueueTaken(steering=steering, following=following):
            left = {"steering": state.steering[steering:], "following": state.following[following:]}
            return {**left, "nudge": "", "nudges": {}}
        case mark:
            return _of_model(state, mark)


def _of_model(state: RunState, mark: RunMark | None) -> dict[str, Any]:
    """Return the changes by a mark about the model: how its reply ended, why it is asked again, which one it is."""
    match mark:
        case ReplyTruncated(in_call=in_call):
            return {"is_call_cut": True} if in_call else {} if state.open else {"newest": "cut_off"}
        case ModelSwitched(place=place):
            return {"model": place, "is_billed": False}
        case CallUnbilled():
            return {"is_billed": True}
        case FirstModelNamed(model=model):
            return {"model": 0, "first_model": model}
        case ModelNudged(why=why):
            return {"nudge": why, "is_billed": False}
        case _:
            return _of_agents(state, mark)


def _of_agents(state: RunState, mark: RunMark | None) -> dict[str, Any]:
    """Return the changes by a mark about others: agents below, those that take over, and processes that take up."""
    match mark:
        case RunTaken(done=done):
            return {"take_ups": state.take_ups + 1 if done == state.done else 1, "done": done, "is_billed": False}
        case RunLeft():
            return {"take_ups": 0, "is_billed": True}
        case ChildBegan(call=call, child=named, is_detached=is_detached):
            child = run_below(state, named)
            spawned = (*state.spawned, child) if is_detached else state.spawned
            return {"children": {**state.children, call: child}, "spawned": spawned}
        case SpawnedBy() as spawned_by:
            return {"spawned_by": spawned_by}
        case SpawnEnded(child=child):
            return {"spawned": tuple(one for one in state.spawned if one != run_below(state, child))}
        case HandoffAsked(agent=agent):
            return {"handing": agent}
        case AgentTook(agent=agent, first_model=model):
            own: dict[str, Any] = {"agent": agent, "told": agent, "model": 0, "first_model": model}
            bounds: dict[str, Any] = {"renewed_at": (state.all_steps,), "calls": 0, "repeated": {}, "malformed": 0}
            return {**own, **bounds, "handing": "", "handoffs": state.handoffs + 1}
        case _:
            return {}


def _answered(state: RunState, named: str, answer: UserAnswer) -> dict[str, Any]:
    """Return the changes by an answer; one that nobody has asked for any more changes nothing."""
    question = state.asked.get(named)
    if question is None:
        return {}
    left = {key: one for key, one in state.asked.items() if key != named}
    is_for_good = answer.decision == "always" and question.kind == "approval" and not question.inner
    allowed = {allowed_name(state, question.tool)} if is_for_good else frozenset[str]()
    told = msgspec.structs.replace(answer, question=question.inner or named)
    asker = asker_of(named)
    changed = {"asked": left, "answers": {**state.answers, asker: told}}
    return {**changed, "always": state.always | allowed, "overruled": state.overruled - {asker}}


def run_below(state: RunState, child: str) -> str:
    """Return the id of the run of a sub-agent that was begun under this one. It is below the session under the name that it has
    now: under the former one, there may still be the session that it was imported from."""
    above, mark, name = child.rpartition("/")
    return f"{state.session}/{name}" if mark and above == state.named else child


def allowed_name(state: RunState, tool: str) -> str:
    """Return the name under which a tool of the agent that is at work is allowed for good: another agent may have one of the
    same name."""
    return f"{state.agent}/{tool}"
