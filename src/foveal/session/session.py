"""A session: append what happened, ask for the prompt, ask why.

The imperative shell around the pure core. It owns the order of things: an entry is durable before the view takes it in, and a
fold is durable before a prompt is built with it. Whatever fails in between leaves a log from which the same view is built again.
"""

import time
from base64 import b32encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from os import PathLike
from secrets import token_bytes
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from foveal.context.port import NOTHING, ROOMS, Alone, Company, Host, Injection, with_fences
from foveal.context.tool_retention import split_retention
from foveal.dialects.renderer import Renderer
from foveal.dialects.tools import read_tools
from foveal.models.counters import ModelCounter
from foveal.project import snapshot
from foveal.project.arrival import NO_RENDERERS, Renderers
from foveal.project.atoms import calls_of
from foveal.project.retention_layers import declared_in
from foveal.project.view import ATTACHED, View
from foveal.record.intake import Spoken, bodies
from foveal.record.overflow import refusal_in, refused_overflow
from foveal.session import own_tools
from foveal.session.model_setup import setup_for, with_retention
from foveal.session.planner import Offer, Planner, fetched_often
from foveal.session.policy import Policy
from foveal.session.rebuild import build, open_view, prompt_at, told_retention, view_of
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.entry import Body, Entry, Fence, Fold, Pin, Rewind, Setup, ToolCall, user
from foveal.values.errors import BadEntry, BadInput, ContextOverflow, NotFound, OverBudget
from foveal.values.events import Listener, Pressure, ignore
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule
from foveal.values.trace import Trace
from foveal.writers import checkpoint_tool

if TYPE_CHECKING:
    from foveal.context.environment import Environment
    from foveal.context.files import Attachment
    from foveal.context.mentions import Mentioned
    from foveal.context.side_context import SideContext
    from foveal.session.handover import Handover
    from foveal.writers.port import Summariser
    from foveal.writers.summary_writer import SummaryWriter

SNAPSHOT_EVERY = 256
"""Entries between two snapshots, and as many as the view has atoms if those are more: opening reads at most as much again
as it shows, and writing a snapshot is a small share of the appends in between, however large the view is."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _random_id() -> str:
    return b32encode(token_bytes(16))[:26].decode().lower()


class Session:
    """One agent's log, seen through one model and one policy. Not for use from several threads at once."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        model: str,
        policy: Policy | None = None,
        dialect: str | None = None,
        counter: ModelCounter | None = None,
        retention: Mapping[str, RetentionRule] | None = None,
        renderers: Renderers = NO_RENDERERS,
        summariser: "Summariser | None" = None,
        on_event: Listener = ignore,
        surroundings: "Environment | None" = None,
        tools: Iterable[str] | None = None,
        author: str = "agent",
        takeover: bool = False,
        new_id: Callable[[], str] = _random_id,
        clock_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self.name, self.author = name, author
        self._store, self._new_id, self._clock_ms = store, new_id, clock_ms
        # What tools' definitions said before the session was closed still holds.
        self._declared = dict(retention or told_retention(store, name))
        policy = policy or Policy()
        renderers = {**getattr(retention, "renderers", {}), **renderers}  # those that tools were declared with
        self._optics = setup_for(model, policy, dialect, counter, declared=self._declared, renderers=renderers)
        self._summariser, self._on_event = summariser, on_event
        if self._is_summarised:
            _ = self._scribe  # a summariser that nobody knows is told of now, and not by the first fold
        self._estimated: int | None = None
        self._planner = Planner(store, name, self._optics)
        self._allowed, self._surroundings = None if tools is None else frozenset(tools), surroundings
        self._company: Company = Alone()
        self._writer = store.hold(name, takeover=takeover)
        try:
            self._view = open_view(store, name, self._optics)
            if surroundings or policy.fences or policy.remind or policy.clock is not None or self._view.fences:
                self._accompanied()
        except BaseException:
            self._writer.release()
            raise
        self._renderer = Renderer(self._optics.dialect)
        self._snapshot_due = self._view.seq + SNAPSHOT_EVERY
        setup = self._view.setup
        if not retention and setup and (told := declared_in(setup.retention)) != self._declared:
            self._declare(told)  # what a tool list said since the last snapshot

    def append(self, item: Body | Mapping[str, Any] | object, *, id: str | None = None) -> Entry:  # noqa: A002 - the entry's id
        """Keep what happened: a message, a mark, or a provider's reply as its SDK returned it.

        Durable when it returns. Appending the same item under the same `id` again changes nothing.
        """
        bodies = self._bodies(item)
        if id is None:
            return self._keep(bodies, [self._new_id() for _ in bodies])[0]
        ids = [id, *(_derived_id(id, i) for i in range(1, len(bodies)))]
        return self._known(bodies, ids) or self._keep(bodies, ids)[0]

    def extend(self, items: Iterable[Body | Mapping[str, Any] | object]) -> list[Entry]:
        """Keep several items together: all of them or none, with one commit."""
        bodies = [body for item in items for body in self._bodies(item)]
        return self._keep(bodies, [self._new_id() for _ in bodies])

    def prompt(self, tools: Sequence[Mapping[str, Any]] = (), *, host: Host = Host()) -> Prompt:  # noqa: B008 - a frozen value
        """The next request: within the budget, valid for the provider. `OverBudget` if that cannot be.

        `host` tells what only the host knows of the next call, for reminders.
        """
        tools = self._company.tools(self._permitted(tools), self._optics.budget.sendable)
        tools, declared = split_retention(tools)
        if not declared.items() <= self._declared.items():
            self._declare(self._declared | declared)
        injection, offer, fold = self._planned(tools, host)
        if fold:
            fold = self._written(fold)
        elif self._is_summarised and self._scribe.is_wanted:
            self._ask_ahead(offer.setup)
        if offer.setup != self._view.setup:
            self._keep([offer.setup], [self._new_id()])
        if fold:
            self._fold(fold)
        if injection.beside != (self._view.beside or NOTHING.beside):
            self._keep([injection.beside], [self._new_id()])
        prompt = build(self.name, self._view, self._optics, offer.specs, self._renderer)
        self._estimated = prompt.tokens
        if self._is_summarised:
            self._scribe.sent(prompt.request, prompt.setup.dialect)
        self._company.sent()
        return msgspec.structs.replace(prompt, fold=fold, beside=injection.lines)

    def inject(self, kind: str, text: str, *, key: str | None = None, **attributes: str) -> Entry:
        """Put content beside the conversation, in a fence of a kind that the policy names. Blank text takes it back."""
        fence = self._accompanied().injector.fence(self._view, kind, text, key=key, attributes=attributes)
        return self._keep([fence], [self._new_id()])[0]

    def remind(self, text: str, name: str = "host") -> None:
        """Say this once, with the next call. Needs `remind` in the policy."""
        self._accompanied().injector.remind(name, text)

    def attach(self, path: str | PathLike[str], *, name: str | None = None) -> "Attachment":
        """Give a file to the model: small text whole, larger ones by an outline that can be recalled, images scaled."""
        from foveal.context.attach import attached, upload_of  # noqa: PLC0415 - loaded by the first file

        entry_id, workspace = self._new_id(), self._surroundings.workspace if self._surroundings else None
        counter, guard = self._optics.counter, self._optics.policy.guard
        found, message = attached(workspace, path, entry_id, counter, self._store, guard=guard, name=name)
        self._keep([log.checked_message(message)], [entry_id], attached={entry_id})
        company = self._accompanied()
        company.injector.tell("uploads", upload_of(found, entry_id))
        company.injector.tell("suggested_skills", *company.around.attached(found))
        return found

    @property
    def mentioned(self) -> "Mentioned":
        """Whom the newest request mentions: tools, skills, agents and files, and the names that are unknown or ambiguous."""
        return self._accompanied().around.mentioned

    def child(
        self,
        name: str,
        task: str,
        *,
        tools: Iterable[str] = (),
        fences: Iterable[str] = (),
        refs: Iterable[str] = (),
        model: str | None = None,
        policy: Policy | None = None,
        **options: Any,
    ) -> "Session":
        """A session for a sub-agent: its task, the fences of these kinds, and nothing else of this one.

        It may be offered the tools of these names only, has its own window, and by default this session's model and policy.
        What stands behind the references `refs` of this session is given to it: its prompt names them, and it can recall them.
        """
        wanted = frozenset(fences)
        for kind in wanted:
            self._accompanied().injector.registry.kind(kind)  # an unknown one is an error
        if model is None:
            options = {"dialect": self._optics.dialect.name, "counter": self._optics.counter} | options
        given = self._gifts(refs) if refs else []
        child = Session(
            self._store,
            f"{self.name}/{name}",
            model=model or self._optics.model,
            policy=policy or self._optics.policy,
            tools=tools,
            **options,
        )
        beside = [msgspec.structs.replace(fence, call=1, turn=1) for fence in self._view.fences if fence.kind in wanted]
        try:
            child._begin(beside, given, task)
        except BaseException:
            child.close()
            raise
        return child

    def compact(self, instructions: str = "") -> Fold | None:
        """Fold now, down to half of what the prompt takes; None if nothing of it can be folded.

        `instructions` tell the summariser what to look at above all; without a summariser they have no reader.
        """
        fold = self._planner.by_hand(self._view)
        if fold:
            fold = self._written(fold, instructions, by_hand=True)
            self._fold(fold)
        return fold

    def recover(self, error: object, tools: Sequence[Mapping[str, Any]] = ()) -> Prompt:
        """A smaller prompt, after the provider refused the last one for its length with this error.

        What it takes is learned for all later prompts. No model is asked. An error that says something else is raised
        again; `ContextOverflow` after `compact.recoveries` refusals in a row.
        """
        refusal = refusal_in(error)
        if refusal is None:
            raise error if isinstance(error, BaseException) else BadInput(f"this tells of no overflow: {error!r}")
        sent = self._estimated or self.pressure.tokens
        if self._view.overflows >= self._optics.policy.compact.recoveries:
            raise ContextOverflow(self._optics.model, self._view.overflows + 1, sent, refusal.said)
        self._keep([refused_overflow(self._optics.model, refusal, sent)], [self._new_id()])
        return self.prompt(tools)

    @property
    def pressure(self) -> Pressure:
        """How full the next prompt is."""
        beside = self._view.beside.blocks if self._view.beside else ()
        return self._planner.pressure(self._view, sum(block.tokens for block in beside))

    def why(self, call: int | None = None) -> Trace:
        """What the next prompt would show and why; or what a past call's prompt showed."""
        return prompt_at(self._store, self.name, self._optics, call, self._view).trace

    def recall(self, ref: str) -> str:
        """The original behind a reference, whole."""
        from foveal.recall import read  # noqa: PLC0415 - loaded by the first call

        return read(self._store, self.name, ref)

    def rewind(self, entry_id: str, reason: str = "") -> Entry:
        """Go on from an earlier entry. What came after it stays in the log, as a branch of its own."""
        found = self._store.find(self.name, entry_id)
        if len(found) != 1:
            raise NotFound(f"session {self.name!r} has no entry {entry_id!r} to rewind to")
        entry = Entry(self._new_id(), found[0].id, self._clock_ms(), self.author, Rewind(reason))
        (seq,) = self._writer.append([log.to_draft(entry)])
        self._take(seq, entry)
        return entry

    @property
    def view(self) -> View:
        """What the next prompt would show, before it is made to fit. For reading."""
        return self._view

    def close(self) -> None:
        """Give the session up for others to hold."""
        if self._is_summarised:
            self._scribe.close()
        self._writer.release()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def serve(self) -> list[ToolCall]:
        """Answer the newest reply's calls to our own tools, and return its calls that are left for the host to run."""
        atom = next((atom for atom in reversed(self._view.atoms) if atom.kind == "tools"), None)
        open_calls = zip(calls_of(atom), atom.answers, strict=False) if atom else ()
        waiting = [call for call, answered in open_calls if answered is None]
        ours = own_tools.ours(self._view.setup.tools if self._view.setup else "[]")
        answers = {call.id: own_tools.answer(self._store, self.name, call) for call in waiting if call.name in ours}
        found = {call.id: answer for call in waiting if (answer := self._company.answer(call))}
        self.extend((answers | found).values())
        left = [call for call in waiting if call.id not in answers and call.id not in found]
        return [_as_written(call) for call in left] if self._optics.policy.guard else left

    def _gifts(self, refs: Iterable[str]) -> "list[Handover]":
        from foveal.session.handover import gifts  # noqa: PLC0415 - loaded by the first that are given

        return gifts(self._store, self.name, refs, count=self._view.lens.measure.count)

    def _begin(self, fences: list[Fence], given: "list[Handover]", task: str) -> None:
        """Take what a parent gives, all of it or none; where it was begun before, the references that are new to it."""
        is_new = self._view.head is None
        given = [gift for gift in given if is_new or not self._has(gift.id)]
        bodies: list[tuple[str, Body]] = [(gift.id, log.checked_message(gift.message)) for gift in given]
        if is_new:
            beside = [(self._new_id(), fence) for fence in fences]
            bodies = [*beside, *bodies, *((self._new_id(), body) for body in self._bodies(user(task)))]
        # The line that names a reference stays over every fold.
        bodies += ((self._new_id(), Pin(gift.id, "given by the parent")) for gift in given)
        if bodies:
            ids = [entry_id for entry_id, _ in bodies]
            self._keep([body for _, body in bodies], ids, attached={gift.id for gift in given})

    def _has(self, entry_id: str) -> bool:
        return any(row.id == entry_id for row in self._store.find(self.name, entry_id))

    def _permitted(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """The tools that this session may be offered: a child sees what it was given."""
        if self._allowed is None:
            return tools
        return [tool for tool in tools if read_tools([split_retention([tool])[0][0]])[0].name in self._allowed]

    def _planned(self, tools: Sequence[Mapping[str, Any]], host: Host) -> tuple[Injection, Offer, Fold | None]:
        """What stands beside the conversation, and the plan with it: what may be cut makes room for what may not."""
        for fence in self._company.due(self._view):
            self._keep([fence], [self._new_id()])
        names = frozenset(spec.name for spec in self._planner.specs(tools))
        is_cold = self._optics.is_cold(self._view, self._clock_ms())
        pressure = self._planner.pressure(self._view)
        for room in ROOMS:
            injection = self._company.beside(self._view, pressure, host, names, room=room)
            try:
                offer, fold = self._planner.plan(self._view, tools, taken=injection.tokens, is_cold=is_cold)
            except OverBudget as error:
                if injection.tokens > injection.mandatory:
                    continue
                raise with_fences(error, injection.mandatory) from None
            return injection, offer, fold
        raise AssertionError  # with no room, nothing is left but what is mandatory

    def _declare(self, declared: Mapping[str, RetentionRule]) -> None:
        """Look at the log through the retention that tools were defined with."""
        self._declared = dict(declared)
        self._optics = self._planner.optics = with_retention(self._optics, self._declared)
        self._rebuild()

    @property
    def _is_summarised(self) -> bool:
        """Whether somebody writes the prose of summaries."""
        return self._summariser is not None or bool(self._optics.policy.compact.summariser)

    @cached_property
    def _scribe(self) -> "SummaryWriter":
        from foveal.writers.summary_writer import SummaryWriter  # noqa: PLC0415 - loaded by the first fold, or where there is a summariser

        policy = self._optics.policy
        return SummaryWriter(self.name, policy.compact, self._summariser, self._on_event, stage=policy.summarise)

    def _written(self, fold: Fold, instructions: str = "", *, by_hand: bool = False) -> Fold:
        """The fold, with the prose of whoever writes summaries."""
        from foveal.fit.stages.summary_folds import shown_beside  # noqa: PLC0415 - loaded by the first fold

        return self._scribe.write(
            fold,
            self._planner.steps(self._view, fold) if self._is_summarised else (),  # code has read them already
            count=self._view.lens.measure.count,
            shown=lambda: shown_beside(self._view, fold),
            fetched=lambda: fetched_often(self._store, self.name, self._view),
            instructions=instructions,
            by_hand=by_hand,
            may_ask=by_hand or not self._view.overflows,  # after a refusal nothing may depend on one more call
            checkpoint=checkpoint_tool.prose(self._view.checkpoint) if self._view.checkpoint else "",
        )

    def _ask_ahead(self, setup: Setup) -> None:
        """At the soft trigger the summary that will be due is asked for, so that nobody has to wait for it."""
        if not self._scribe.is_asked_ahead and self.pressure.share >= self._optics.policy.compact.soft:
            with suppress(OverBudget):
                if fold := self._planner.ahead(self._view, setup):
                    steps = self._planner.steps(self._view, fold)
                    self._scribe.ask_ahead(fold, steps, self._view.lens.measure.count)

    def _fold(self, fold: Fold) -> None:
        self._keep([fold], [self._new_id()], with_snapshot=False)
        self._snapshot_due = 0  # the view is at its smallest now: write it with the next append

    def _known(self, bodies: list[Body], ids: list[str]) -> Entry | None:
        """The entry of an append that was made before: a retry comes from further on in the log than the first attempt."""
        row = next((row for row in self._store.find(self.name, ids[0]) if row.id == ids[0]), None)
        if row is None:
            return None
        entry = log.to_entry(row, self.name)
        if entry.body != bodies[0]:
            raise BadEntry(
                f"entry id {ids[0]} is already in the log at place {row.seq} with other content; nothing was written. "
                "Give every new entry an id of its own."
            )
        return entry

    def _bodies(self, item: object) -> list[Body]:
        optics = self._optics
        spoken = Spoken(optics.dialect, optics.model, optics.facts.window)
        return bodies(item, self._store, self.name, spoken, estimated=self._estimated)

    def _keep(
        self, bodies: Sequence[Body], ids: Sequence[str], *, attached: Collection[str] = (), with_snapshot: bool = True
    ) -> list[Entry]:
        """Write entries, all of them or none. Those whose ids are in `attached` are put there rather than said by anybody."""
        entries: list[Entry] = []
        parent = self._view.head
        for body, entry_id in zip(bodies, ids, strict=True):
            author = ATTACHED if entry_id in attached else self.author
            entries.append(Entry(entry_id, parent, self._clock_ms(), author, body))
            parent = entry_id
        due = with_snapshot and self._view.seq >= self._snapshot_due
        frozen = snapshot.dump(self._view) if due else None
        seqs = self._writer.append([log.to_draft(entry) for entry in entries], snapshot=frozen)
        if due:
            self._snapshot_due = self._view.seq + max(SNAPSHOT_EVERY, len(self._view.atoms))
        for seq, entry in zip(seqs, entries, strict=True):
            if seq > self._view.seq:  # a retry of what is there already has a lower place
                self._take(seq, entry)
        return entries

    def _take(self, seq: int, entry: Entry) -> None:
        self._view.feed(seq, entry)
        self._company.heard(seq, entry)
        if self._view.stale:
            self._rebuild()
            if isinstance(entry.body, Rewind):
                self._company.follow(self._view)

    def _accompanied(self) -> "SideContext":
        """The company of this session, from the first time that there is some."""
        from foveal.context.side_context import SideContext  # noqa: PLC0415 - loaded by the first session that has company

        if not isinstance(self._company, SideContext):
            count = self._optics.counter.counter.count
            policy, allowed = self._optics.policy, self._allowed
            company = SideContext(policy.context, self._surroundings, count, allowed=allowed, began_ms=self._began_ms)
            company.follow(self._view)
            self._company = company
        return self._company

    def _began_ms(self) -> int:
        """When the first entry of this log was written, whoever has it open now."""
        return next(iter(self._store.rows(self.name, upto=1))).time_ms

    def _rebuild(self) -> None:
        self._view = view_of(log.branch(self._store.rows(self.name)), self.name, self._optics)
        self._renderer = Renderer(self._optics.dialect)
        self._planner.forget()
        self._snapshot_due = 0


def _as_written(call: ToolCall) -> ToolCall:
    """The call as the model meant it: in the view, what could be taken for our frame is marked."""
    from foveal.text.guard import restore  # noqa: PLC0415 - loaded by the first call

    return msgspec.structs.replace(call, arguments=restore(call.arguments))


def _derived_id(first: str, number: int) -> str:
    """The id of a further entry of the same append: the same in a retry, and nothing like the first."""
    return b32encode(sha256(f"{first}/{number}".encode()).digest())[:26].decode().lower()
