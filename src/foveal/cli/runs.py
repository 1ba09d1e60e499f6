"""List the runs of agents in a store; show one, wait for it, cancel or pause it, tell its tree, cost and audit trail.

`foveal runs VERB ID`: VERB is one of show, wait, cancel, pause, resume, tree, cost, audit. `foveal resume ID` also takes answers.
`foveal runs work` is a worker: it drives runs that were left to workers, or by processes that died, until it is told to end.
A list that lacks sessions, because they are damaged or their keys are not at hand, ends with exit code 1.
"""

import asyncio
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, get_args

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.audit import audit_trail
from foveal.agent.driver import UNDER_WAY, RunOutcome
from foveal.agent.run_events import event_kinds, kind_of
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import ENDED, RunStatus, split_run
from foveal.agent.run_reports import RunCard, newest_run
from foveal.agent.runs import RunCost, Runs, RunTree
from foveal.agent.tools import UserQuestion
from foveal.cli import resume
from foveal.cli.agent_options import DEFAULT_AGENT, add_agent, opened_agent
from foveal.cli.arguments import add_store, existing_store, open_place, positive, store_place
from foveal.cli.output import Output, complain, utc_second, utc_time
from foveal.cli.queue_options import add_queue, opened_queue
from foveal.cli.run_screen import WAITS, exit_code, question_line, resume_command, shortened, tell_questions
from foveal.stores.port import Store
from foveal.values.entry import Usage
from foveal.values.errors import BadInput, FovealError

_REASON_CHARS = 60
"""Characters of a reason in a table: enough to know it by."""
_LOOK_S, _LEFT_S = 1.0, 10.0
"""Seconds between two looks whether anybody has a run that is waited for, and those after which nobody will take it up: a worker
that is there and has time does so within some seconds."""
_FRAME = ("id", "scope", "time_ms")
_NOTHING: tuple[object, ...] = (None, "", (), {}, [])


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="VERB ID",
        help=f"{', '.join((*_VERBS, 'resume'))}, and the run; or work; nothing lists all",
    )
    parser.add_argument("--status", metavar="S", help="list only the runs of this status")
    parser.add_argument(
        "--events", metavar="KIND", action="append", default=[], help="show only events of this kind; once for each"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="why it is cancelled or paused")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="the longest to wait")
    parser.add_argument(
        "--at-once", metavar="N", type=positive, default=16, help="runs that a worker drives (default: 16)"
    )
    add_agent(parser)
    add_queue(parser)
    add_store(parser)
    parser.set_defaults(answer=None, decision=None, arguments=None, question="", detach=False)


def run(args: Namespace, out: Output) -> int | None:
    if args.words[:1] == ["resume"] and len(args.words) == 2:
        args.run_id = args.words[1]
        return resume.run(args, out)
    if args.words == ["work"]:
        with opened_agent(args) as agent, open_place(store_place(args.store)) as store:
            return asyncio.run(_work(agent, store, args, out))
    with existing_store(args.store) as store:
        runs = Runs(store)
        match args.words:
            case []:
                return _list(runs, args, out)
            case [verb, name] if verb in _VERBS:
                return _VERBS[verb](runs, name, args, out)
            case [verb, *_] if verb not in _ALL_VERBS:
                near = get_close_matches(str(verb), _ALL_VERBS, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise BadInput(f"there is no verb {verb!r}.{hint} There are: {', '.join(_ALL_VERBS)}")
            case ["work", *_]:
                raise BadInput("`work` takes no run: it drives those that it finds")
            case words:
                raise BadInput(f"a verb takes the id of one run: foveal runs {words[0]} ID")


async def _work(agent: Agent, store: Store, args: Namespace, out: Output) -> int:
    task = asyncio.create_task(Runs(store, [agent], queue=opened_queue(args)).work(at_once=args.at_once))
    for name in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop
            asyncio.get_running_loop().add_signal_handler(name, task.cancel)
    if out.is_json:
        out.document({"agent": agent.name, "at_once": args.at_once})
    else:
        out.line(f"worker for {agent.name}, {args.at_once} runs at once. Ctrl-C leaves them to other workers.")
    out.stream.flush()
    with suppress(asyncio.CancelledError):
        await task
    return 0


def _list(runs: Runs, args: Namespace, out: Output) -> int:
    if args.status and args.status not in get_args(RunStatus):
        raise BadInput(f"there is no status {args.status!r}; there are {', '.join(get_args(RunStatus))}")
    cards = runs.list(status=args.status)
    if out.is_json:
        out.document({"runs": cards})
    else:
        _print_list(cards, runs, args, out)
    return int(any(one.status is None for one in cards))


def _print_list(cards: Sequence[RunCard], runs: Runs, args: Namespace, out: Output) -> None:
    rows = [
        (one.run, one.agent, _status_of(one), utc_time(one.updated_ms / 1000), _reason_of(one, runs, args))
        for one in cards
        if not one.needs_key
    ]
    if rows:
        out.table(("run", "agent", "status", "last entry", "reason"), rows, "lllll")
    else:
        out.line("no runs")
    if closed := [one for one in cards if one.needs_key]:
        out.line(
            f"{len(closed):,} sessions were not read, because their keys are not at hand; the first {closed[0].reason}",
            "bad",
        )


def _status_of(card: RunCard) -> str:
    return f"{card.status}, left behind" if _is_left(card) else card.told_status


def _reason_of(card: RunCard, runs: Runs, args: Namespace) -> str:
    """Return the reason of a run's status: its questions, for one that waits for answers."""
    if card.status == "awaiting_user":
        try:
            return "; ".join(question_line(one, is_short=True) for one in runs.outcome(card.run).questions)
        except FovealError as error:  # of this log alone: the other runs are listed all the same
            return f"cannot be read: {error}"
    return _going_on(card, args) if _is_left(card) else shortened(card.reason, _REASON_CHARS)


def _is_left(card: RunCard | None) -> bool:
    """Return whether a run should be under way and no process has it: one that died has, or no worker has taken it up yet."""
    return card is not None and card.status in UNDER_WAY and not card.is_held


def _going_on(card: RunCard, args: Namespace) -> str:
    """Return how a run goes on that was left behind: a sub-agent's goes on with the run above it."""
    return f"{resume_command(card.parent or card.run, _naming(card.agent, args))} goes on with it"


def _naming(agent: str, args: Namespace) -> Namespace:
    """Return the arguments with a place for the agent's file, which only the default agent does without."""
    is_named = args.agent is not None or agent == DEFAULT_AGENT
    return args if is_named else Namespace(**{**vars(args), "agent": "FILE"})


def _newest(runs: Runs, name: str) -> RunCard | None:
    """Return the newest run of the session of a run, as it is now."""
    return next((newest_run(runs.store, card) for card in runs.store.cards(split_run(name)[0])), None)


def _show(runs: Runs, name: str, args: Namespace, out: Output) -> None:
    tree, session = runs.tree(name), split_run(name)[0]
    wanted = event_kinds(args.events)
    kept = read_events(runs.store, session, run=tree.run)
    events = [event for event in kept if not wanted or kind_of(event) in wanted]
    if out.is_json:
        out.document({"run": tree, "events": events})
        return
    card = _newest(runs, name)
    if card is not None and card.run == tree.run and _is_left(card):
        out.line(f"{tree.run}: {tree.agent}, {_status_of(card)}: {_going_on(card, args)}", "strong")
    else:
        out.line(f"{tree.run}: {tree.agent}, {tree.status}", "strong")
    out.line("Time of each event, its kind, and what it tells; --json has their ids and all of their fields.")
    for event in events:
        fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _FRAME}
        said = ", ".join(f"{name}: {_field(value)}" for name, value in fields.items() if value not in _NOTHING)
        out.line(f"{utc_second(event.time_ms / 1000)}  {kind_of(event):<16} {said}")


def _field(value: object) -> str:
    """Return a value of an event on one line; a long one ends with a mark that says so."""
    if isinstance(value, UserQuestion):
        return question_line(value)
    if isinstance(value, Usage):
        return _tokens(msgspec.to_builtins(value))
    return shortened(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _tokens(usage: Mapping[str, Any]) -> str:
    """Return the tokens of a model call in words."""
    return f"{usage['model']}, {usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"


def _wait(runs: Runs, name: str, args: Namespace, out: Output) -> int:
    try:
        outcome = asyncio.run(_rested(runs, name, args.timeout))
    except TimeoutError:
        if not _is_left(_newest(runs, name)):
            raise BadInput(f"run {name} is still under way after {args.timeout:g} s") from None
        outcome = runs.outcome(name)
    if out.is_json:
        out.document(outcome)
    else:
        out.line(f"{outcome.run}: {outcome.status} {outcome.reason}".rstrip())
        out.line(outcome.text)
    card = _newest(runs, name)
    if card is not None and outcome.status in UNDER_WAY:
        complain(f"{outcome.run} was left behind, and no worker takes it up: {_going_on(card, args)}")
        return WAITS
    if card is not None:
        tell_questions(outcome.run, outcome.questions, _naming(card.agent, args))
    return exit_code(outcome)


async def _rested(runs: Runs, name: str, timeout_s: float | None) -> RunOutcome:
    """Return the outcome of a run when it ends or rests, or when nobody has had it for some seconds: a worker takes no longer.
    With a timeout, whoever waits has said how long a worker may take."""
    waiting, left_s = asyncio.ensure_future(runs.wait(name, timeout_s)), 0.0
    while timeout_s is not None or left_s < _LEFT_S:
        if (await asyncio.wait((waiting,), timeout=_LOOK_S))[0]:
            return await waiting
        left_s = left_s + _LOOK_S if _is_left(await asyncio.to_thread(_newest, runs, name)) else 0.0
    waiting.cancel()
    return runs.outcome(name)


def _cancel(runs: Runs, name: str, args: Namespace, out: Output) -> None:
    tree = runs.tree(name)
    if tree.status in ENDED:
        raise BadInput(f"run {tree.run} is {tree.status} already; there is nothing to cancel")
    asyncio.run(runs.cancel(name, args.reason))
    _said(name, "will end", out)


def _pause(runs: Runs, name: str, args: Namespace, out: Output) -> None:
    asyncio.run(runs.pause(name, args.reason))
    _said(name, "will rest", out)


def _said(name: str, text: str, out: Output) -> None:
    if out.is_json:
        out.document({"run": name, "asked": True})
    else:
        out.line(f"{name} {text}")


def _tree(runs: Runs, name: str, args: Namespace, out: Output) -> None:
    tree = runs.tree(name)
    if out.is_json:
        out.document(tree)
    else:
        _branch(tree, "", out)


def _branch(tree: RunTree, indent: str, out: Output) -> None:
    out.line(f"{indent}{tree.run}  {tree.agent}  {tree.status}")
    for child in tree.children:
        _branch(child, indent + "  ", out)


def _cost(runs: Runs, name: str, args: Namespace, out: Output) -> None:
    cost = runs.cost(name)
    if out.is_json:
        out.document({"cost": cost, "usd": cost.total_usd, "calls": cost.calls})
        return
    rows = [*_cost_rows(cost), ("all", "", f"{cost.calls:,}", "", "", "", _usd(cost.total_usd))]
    out.table(("run", "model", "calls", "input", "output", "reasoning", "cost"), rows, "llrrrrr")


def _cost_rows(cost: RunCost) -> list[tuple[str, ...]]:
    own = [
        (
            cost.run,
            model,
            *(f"{number:,}" for number in (one.calls, one.input_tokens, one.output_tokens)),
            "not told" if one.reasoning_tokens is None else f"{one.reasoning_tokens:,}",
            _usd(cost.own_usd),
        )
        for model, one in (*cost.own.items(), *((f"{name} (summaries)", one) for name, one in cost.summaries.items()))
    ]
    return [*own, *(row for child in cost.children for row in _cost_rows(child))]


def _audit(runs: Runs, name: str, args: Namespace, out: Output) -> None:
    tree = runs.tree(name)
    records = list(audit_trail(runs.store, tree.run))
    if out.is_json:
        out.document({"run": tree.run, "records": records})
        return
    rows = [
        (
            utc_second(one.time_ms / 1000),
            one.run,
            one.actor,
            one.action,
            one.decision.outcome[:40],
            _about(one.evidence),
            shortened(one.decision.reason, _REASON_CHARS),
        )
        for one in records
    ]
    out.table(("time", "run", "actor", "action", "outcome", "about", "reason"), rows, "lllllll")


def _about(evidence: Mapping[str, Any]) -> str:
    """Return the part of the evidence by which people know a decision: the call, the tokens of a model, or an agent."""
    if "input_tokens" in evidence:
        return _tokens(evidence)
    known = ("tool", "arguments", "agent", "model", "child", "question")
    return shortened(" ".join(str(evidence[name]) for name in known if evidence.get(name)))


def _usd(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:.4f}"


_VERBS: dict[str, Callable[[Runs, str, Namespace, Output], int | None]] = {
    "show": _show,
    "wait": _wait,
    "cancel": _cancel,
    "pause": _pause,
    "tree": _tree,
    "cost": _cost,
    "audit": _audit,
}
_ALL_VERBS = (*_VERBS, "resume", "work")
