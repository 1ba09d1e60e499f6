"""Rules that every run of an agent keeps, checked over its events: live ones, replayed ones, or their JSON.

assert run_problems(events) == []
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

_LEGAL: dict[str | None, frozenset[str]] = {
    None: frozenset({"pending"}),
    "pending": frozenset({"running", "paused", "cancelled", "failed"}),
    "running": frozenset({"awaiting_user", "paused", "completed", "failed", "cancelled"}),
    "awaiting_user": frozenset({"running", "cancelled", "failed"}),
    "paused": frozenset({"running", "cancelled", "failed"}),
    "failed": frozenset({"running"}),
}
"""The statuses that may follow each status. A failed run may be resumed."""
_ENDED = ("completed", "failed", "cancelled")


def run_problems(events: Iterable[Any]) -> list[str]:
    """Return the rules that the events of a session break, each with its event; none if all is well.

    Events come in their order; statuses follow legally; every call has one result, and none has two; a tool starts only
    for a call that was made; no prompt is over its limit; the end of a run tells its last status and nothing of it comes after.
    After a rewind, the open calls are those of the conversation that the run went back to.
    """
    listed: list[Mapping[str, Any]] = [msgspec.to_builtins(event, enc_hook=repr) for event in events]
    return [*_order(listed), *(problem for run in _runs(listed) for problem in _run_problems(run))]


def _order(events: list[Mapping[str, Any]]) -> Iterator[str]:
    last = -1
    for event in events:
        if event["id"] <= last:
            yield f"event {event['id']} ({event['is']}) came after event {last}"
        last = event["id"]


def _runs(events: list[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        by_run.setdefault(event["scope"]["run"], []).append(event)
    return list(by_run.values())


def _run_problems(events: list[Mapping[str, Any]]) -> Iterator[str]:
    yield from _statuses(events)
    yield from _calls(events)
    for event in events:
        if event["is"] == "step_started" and event["tokens"] > event["limit"]:
            yield f"event {event['id']}: a prompt of {event['tokens']:,} tokens is over its limit of {event['limit']:,}"


def _statuses(events: list[Mapping[str, Any]]) -> Iterator[str]:
    status: str | None = None
    for event in events:
        kind = event["is"]
        if status in _ENDED and kind not in ("run_ended", "status_changed", "went_back"):
            yield f"event {event['id']} ({kind}) came after the run was {status}"
        if kind == "status_changed":
            if event["status"] not in _LEGAL.get(status, frozenset()):
                yield f"event {event['id']}: the status {status} was followed by {event['status']}"
            status = event["status"]
        if kind == "run_ended" and event["status"] != status:
            yield f"event {event['id']}: the end tells {event['status']}, the status is {status}"


def _calls(events: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the calls of each reply without exactly one result, and results and starts without a call."""
    waiting: dict[str, int] = {}
    known: list[tuple[int, dict[str, int]]] = []
    """The ids of events, each with the calls that waited before it."""
    for event in events:
        known.append((event["id"], dict(waiting)))
        match event["is"]:
            case "went_back":
                waiting = dict(next(calls for number, calls in known if number > event["upto"]))
            case "tool_called":
                waiting[event["call"]] = waiting.get(event["call"], 0) + 1
            case "tool_started" if not waiting.get(event["call"]):
                yield f"event {event['id']}: a tool started for {event['call']}, which no reply calls"
            case "tool_ended":
                if not waiting.get(event["call"]):
                    yield f"event {event['id']}: a result for {event['call']}, which no reply calls"
                waiting[event["call"]] = waiting.get(event["call"], 1) - 1
            case "model_replied" | "run_ended" if event.get("is_whole", True):
                is_failed = event.get("status") == "failed"  # may be resumed: its calls stay open
                for call in [] if is_failed else [call for call, left in waiting.items() if left > 0]:
                    yield f"event {event['id']}: {call} has no result"
                waiting = waiting if is_failed else {}
            case _:
                pass
