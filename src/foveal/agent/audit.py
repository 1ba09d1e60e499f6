"""The audit trail of a run: who decided what, by which rule, on which evidence, and at which cost.

    for record in audit_trail(store, "fix#1"): …                                  # from the log, sub-agents included
    async for event in audited(runs.observe(run), audit_file("audit.jsonl")): …   # while it happens

It is made of the kept events of the run, and so of the log: there is no second record that could say something else, and a
record has the same id whenever it is made. Secrets are taken out before anything is written.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec

from foveal.agent.run_events import (
    AnswerGiven,
    ChildStarted,
    ContextOverflowed,
    CostUnknown,
    HandedOver,
    ModelFellBack,
    QuestionAsked,
    RunEvent,
    RunStarted,
    StatusChanged,
    SummaryBilled,
    ToolCalled,
    ToolEnded,
    ToolStarted,
    UsageCounted,
)
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import split_run
from foveal.agent.tools import APPROVAL, UserAnswer, asker_of
from foveal.stores.port import Store
from foveal.text.redaction import Redactor, redact_secrets
from foveal.values.own_tools import CHECKPOINT_TOOL, RECALL_TOOL, REMEMBER_TOOL, SEARCH_TOOL

Actor: TypeAlias = Literal["user", "agent", "model", "policy", "timeout", "provider"]

OWN_TOOLS = (RECALL_TOOL, SEARCH_TOOL, CHECKPOINT_TOOL, REMEMBER_TOOL)
_STATUSES = {"paused": "run.pause", "cancelled": "run.cancel", "completed": "run.end", "failed": "run.end"}


class AuditDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision: its outcome, the reason that was given, and the rule or setting that it follows from."""

    outcome: str
    reason: str = ""
    policy: str = ""


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of an audit trail."""

    id: str
    """The event that it is made of, and the action: the same in every process."""
    run: str
    time_ms: int
    actor: Actor
    action: str
    """`run.start`, `model.select`, `model.call`, `model.fallback`, `tool.allow`, `tool.deny`, `wait_user.request`, …"""
    decision: AuditDecision
    parent: str = ""
    """The run above."""
    evidence: dict[str, Any] = {}
    cost_usd: float | None = None
    """Of a model call with a known price."""


AuditSink: TypeAlias = Callable[[AuditRecord], None]


class AuditFold:
    """Makes the records of one run of its events, in their order."""

    def __init__(self, redact: Redactor = redact_secrets) -> None:
        self._redact = redact
        self._calls: dict[str, ToolCalled] = {}
        self._answers: dict[str, UserAnswer] = {}
        self._model, self._status, self._fallback = "", "", ""

    def records(self, event: RunEvent) -> list[AuditRecord]:
        """Return the records of an event; none for events that tell of no decision."""
        return [
            AuditRecord(
                id=f"{event.scope.run}:{event.id}:{action}",
                run=event.scope.run,
                parent=event.scope.parent,
                time_ms=event.time_ms,
                actor=actor,
                action=action,
                decision=self._clean(decision),
                evidence=self._clean(evidence),
                cost_usd=_cost(event, action),
            )
            for actor, action, decision, evidence in self._told(event)
        ]

    def _clean(self, value: Any) -> Any:
        """Return the value with every text in it redacted."""
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, dict):
            return {key: self._clean(one) for key, one in cast("dict[str, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._clean(one) for one in cast("list[Any]", value)]
        if isinstance(value, AuditDecision):
            return AuditDecision(*map(self._redact, (value.outcome, value.reason, value.policy)))
        return value

    def _told(self, event: RunEvent) -> Iterator[tuple[Actor, str, AuditDecision, Mapping[str, Any]]]:
        match event:
            case RunStarted(agent=agent):
                yield "user", "run.start", AuditDecision("started"), {"agent": agent}
            case StatusChanged(status=status, reason=reason):
                yield from self._of_status(status, reason)
            case UsageCounted(usage=usage):
                if usage.model != self._model:
                    self._model, why = usage.model, self._fallback or "the agent's first model that answers"
                    yield "agent", "model.select", AuditDecision(usage.model, why, "models"), {}
                yield "model", "model.call", AuditDecision("answered"), msgspec.to_builtins(usage)
            case CostUnknown(model=model):
                yield "model", "model.call", AuditDecision("asked", "nobody has told the tokens"), {"model": model}
            case SummaryBilled(usage=summarised):
                yield (
                    "agent",
                    "model.summarise",
                    AuditDecision("asked", "", "summariser"),
                    msgspec.to_builtins(summarised) or {},
                )
            case ModelFellBack(model=model, because=because):
                self._fallback = because
                yield "agent", "model.fallback", AuditDecision(model, because, "fallbacks"), {}
            case ContextOverflowed(model=model, limit=limit, because=because):
                yield (
                    "provider",
                    "context.overflow",
                    AuditDecision("refused", because),
                    {"model": model, "limit": limit},
                )
            case HandedOver(agent=agent):
                yield "model", "run.handoff", AuditDecision(agent, "", "handoffs"), {}
            case ChildStarted(child=child, agent=agent):
                yield "model", "run.delegate", AuditDecision(agent, "", "agents"), {"child": child}
            case _:
                yield from self._of_calls(event)

    def _of_status(self, status: str, reason: str) -> Iterator[tuple[Actor, str, AuditDecision, Mapping[str, Any]]]:
        before, self._status = self._status, status
        if status in _STATUSES:
            actor: Actor = "user" if status in ("paused", "cancelled") else "agent"
            yield actor, _STATUSES[status], AuditDecision(status, reason), {}
        elif status == "running" and before not in ("", "pending"):
            yield "user", "run.resume", AuditDecision("running", f"it was {before}"), {}

    def _of_calls(self, event: RunEvent) -> Iterator[tuple[Actor, str, AuditDecision, Mapping[str, Any]]]:
        match event:
            case ToolCalled(call=call):
                self._calls[call] = event
            case QuestionAsked(question=question):
                asked = AuditDecision("waits", question.text, question.kind)
                yield "agent", "wait_user.request", asked, msgspec.to_builtins(question)
            case AnswerGiven(question=question, answer=answer):
                self._answers.setdefault(question, answer)
                outcome = AuditDecision(answer.decision or "answered", answer.text)
                yield _answerer(answer), "wait_user.answer", outcome, {"question": question}
            case ToolStarted(call=call, tool=tool, key=key):
                said = self._newest_answer(key + APPROVAL)
                actor: Actor = _answerer(said) if said else "policy"
                outcome = AuditDecision("allowed", said.decision if said else "", "approvals")
                ran = {"arguments": msgspec.json.encode(said.arguments).decode()} if said and said.arguments else {}
                yield actor, "tool.allow", outcome, {"tool": tool, "key": key, **self._call(call), **ran}
                self._calls.pop(call, None)
            case ToolEnded(call=call, status=status, text=text) if self._is_own(call, text):
                called = self._calls.pop(call)
                if status == "ok" and called.tool == REMEMBER_TOOL:
                    outcome = AuditDecision("forgotten" if text.startswith("[forgotten") else "kept", text, "memory")
                    yield "model", "memory.write", outcome, _arguments(called)
            case ToolEnded(call=call, status=status, text=text) if status != "ok" and call in self._calls:
                called = self._calls.pop(call)
                actor = "user" if text.startswith("[denied by the user") else "policy"
                yield actor, "tool.deny", AuditDecision("denied", text), {"tool": called.tool, **_arguments(called)}
            case _:
                pass

    def _is_own(self, call: str, text: str) -> bool:
        """Return whether a result is that of a tool of Foveal's own, which the session answers; an error of it is no denial."""
        return (
            call in self._calls and self._calls[call].tool in OWN_TOOLS and not text.startswith(("[denied", "[not run"))
        )

    def _newest_answer(self, asker: str) -> UserAnswer | None:
        """Return the newest answer to a question of a call: it may be asked again on another branch."""
        given = reversed(self._answers.items())
        return next((answer for question, answer in given if asker_of(question) == asker), None)

    def _call(self, call: str) -> Mapping[str, Any]:
        return _arguments(self._calls[call]) if call in self._calls else {"call": call}


def _answerer(answer: UserAnswer) -> Actor:
    """Return who gave an answer; one in the run of a sub-agent is the user's too."""
    return "timeout" if answer.source == "timeout" else "user"


def _cost(event: RunEvent, action: str) -> float | None:
    if isinstance(event, SummaryBilled):
        return event.usd
    return event.usd if isinstance(event, UsageCounted) and action == "model.call" else None


def _arguments(called: ToolCalled) -> Mapping[str, Any]:
    return {"call": called.call, "arguments": called.arguments}


def audit_trail(store: Store, run: str, *, redact: Redactor = redact_secrets) -> Iterator[AuditRecord]:
    """Yield the records of a run and of its sub-agents, each below its call. A session has those of all its runs."""
    session, number = split_run(run)
    folds: dict[str, AuditFold] = {}
    for event in read_events(store, session, run=run if number is not None else ""):
        yield from folds.setdefault(event.scope.run, AuditFold(redact)).records(event)
        if isinstance(event, ChildStarted):
            yield from audit_trail(store, event.child, redact=redact)


async def audited(
    events: AsyncIterable[RunEvent], *sinks: AuditSink, redact: Redactor = redact_secrets
) -> AsyncGenerator[RunEvent, None]:
    """Yield the events of a run, and hand the records of each to the sinks first. The error of a sink reaches the reader of the
    events, and never the run."""
    fold = AuditFold(redact)
    async for event in events:
        for record in fold.records(event):
            for sink in sinks:
                sink(record)
        yield event


def audit_file(path: str | PathLike[str]) -> AuditSink:
    """Return a sink that appends each record to a file, as one line of JSON."""

    def write(record: AuditRecord) -> None:
        with Path(path).open("ab") as stream:
            stream.write(msgspec.json.encode(record) + b"\n")

    return write
