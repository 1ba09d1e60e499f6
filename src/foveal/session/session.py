"""A session: append what happened, ask for the prompt, ask why.

The imperative shell around the pure rooms. It owns the order of things: an entry is durable before the view takes it in, and a
fold is durable before a prompt is built with it.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from foveal import context, recall
from foveal.context.foresight import FoldedPast
from foveal.context.injection import NOTHING, OPTIONAL_SHARES, Injection, NextCall, with_fences
from foveal.context.memory import ScopeAccess
from foveal.project.arrival import NO_RENDERERS, Renderers
from foveal.project.retention_layers import declared_in
from foveal.project.transcript import calls_of
from foveal.project.view import View
from foveal.recall import search as log_search
from foveal.session import own_tools
from foveal.session.compaction import Compaction, FoldWriter
from foveal.session.follow import ClientFollower, Followed
from foveal.session.handover import begin_child, hand_over, newest_turns
from foveal.session.journal import Journal, NewBody
from foveal.session.model_setup import ModelSetup, setup_for, with_retention
from foveal.session.options import Clock, Host, Model
from foveal.session.planner import Offer, Planner
from foveal.session.policy import Policy
from foveal.session.rebuild import OpenedLog, build, prompt_at
from foveal.session.session_events import SessionEvents
from foveal.session.tool_list import OfferedTools, ToolList
from foveal.stores.port import Store
from foveal.text.repair import unwrapped
from foveal.values.entry import Body, Entry, Fold, Message, Overflow, Setup, ToolCall
from foveal.values.errors import BadInput, OverBudget
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule
from foveal.values.trace import Trace


class Session:
    """One agent's log, seen through one model and one policy. A second call at the same time is refused (`SessionBusy`)."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        model: str | Model,
        policy: Policy | None = None,
        host: Host = Host(),  # noqa: B008 - a frozen value
        takeover: bool = False,
        clock: Clock = Clock(),  # noqa: B008 - a frozen value
    ) -> None:
        self.name = name
        given = host.retention
        declared_renderers: Renderers = getattr(host.retention, "renderers", NO_RENDERERS)  # of `rules_of`
        renderers: Renderers = ChainMap(
            cast("dict[str, Any]", host.renderers), cast("dict[str, Any]", declared_renderers)
        )
        model = model if isinstance(model, Model) else Model(model)
        setup = setup_for(model, policy or Policy(), declared=given, renderers=renderers)
        opening = store.load(name, takeover=takeover, secret=clock.new_secret(), scope=setup.policy.memory)
        try:
            opened = OpenedLog(store, name, opening)
            # Retention that tools declared before the session was closed still holds.
            self._declared = dict(opened.declared_retention() if given is None else given)
            setup = with_retention(setup, self._declared)
            self._journal = Journal(
                store, name, setup, opened=opened, author=host.author, clock=clock, redact=host.redact
            )
            self._journal.on_entry = self._observe
            self._tools = ToolList(host.allowed_tools)
            self._events = SessionEvents(name, host.on_event, self._journal.view.facts.setup)
            self._journal.turn.on_failure = self._events.failure
            self._planner = Planner(store, name, self._journal.setup)
            self._folds = FoldWriter(self._journal, self._planner, host, self._events.tell)
            self._injector = _injector_for(self._journal, host)
        except BaseException:
            opening.writer.release()
            raise
        self._access = _access_to(self._journal, host)
        self.context = context.SideContext(self._injector, self._access)
        """Content beside the conversation: `inject`, `remind`, `attach`, `mentioned`, `remember`, `forget`."""
        self.compaction = Compaction(self._journal, self._planner, self._folds, self._prompt)
        """Folds on demand: `fold`, `recover`, `pressure`, `forget_limit`."""
        self._follower = ClientFollower(self._journal)
        self.branches = Branches(self._journal)
        """Branches of the log: `rewind`."""
        self.children = Children(self._journal, self.context, self._begun)
        """Sessions for sub-agents: `open`."""
        built_for = self.view.facts.setup
        if given is None and built_for and (declared := declared_in(built_for.retention)) != self._declared:
            self._declare(declared)  # by a tool list since the last snapshot

    @property
    def view(self) -> View:
        """The branch as the next prompt would show it, before it is made to fit. For reading."""
        return self._journal.view

    def append(self, item: Body | Mapping[str, Any] | object, *, id: str | None = None) -> Entry:  # noqa: A002 - the entry's id
        """Keep what happened: a message, a mark, or a provider's reply as its SDK returned it.

        Durable when it returns. Appending the same item under the same `id` again changes nothing.
        """
        with self._journal.turn.of("append", is_append=True):
            new = self._journal.bodies_of(item)
            is_followed = id is None and self.view.facts.followed
            return self._follower.keep(new)[0] if is_followed else self._journal.append(new, id)

    def extend(self, items: Iterable[Body | Mapping[str, Any] | object]) -> list[Entry]:
        """Keep several items together: all of them or none, with one commit."""
        with self._journal.turn.of("extend", is_append=True):
            given = list(items)
            if any(isinstance(one, context.FileEntry) for one in given):
                return self._extend_with_files(given)
            new = [body for item in given for body in self._journal.bodies_of(item)]
            return self._follower.keep(new) if self.view.facts.followed else self._journal.keep(new)

    def follow(
        self, messages: Sequence[Mapping[str, Any] | Message], *, system: str | Sequence[Message] | None = None
    ) -> Followed:
        """Keep what is new in a client's whole list of messages, and go to the branch that it tells.

        The messages are those of one provider's format, or neutral ones. `system` takes the place of the system prompt; without
        it, system messages that begin the list do. The same list again changes nothing.
        """
        with self._journal.turn.of("follow"):
            return self._follower.follow(messages, system)

    def prompt(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        next_call: NextCall = NextCall(),  # noqa: B008 - a frozen value
    ) -> Prompt:
        """Build the next request: within the budget, valid for the provider. Raise `OverBudget` if that cannot be.

        `next_call` holds facts about the next call that only the host knows: for reminders, and the length of the reply.
        """
        with self._journal.turn.of("prompt"):
            return self._prompt(tools, next_call)

    def serve(self) -> list[ToolCall]:
        """Answer the newest reply's calls to Foveal's own tools, and return its other calls for the host to run."""
        with self._journal.turn.of("serve"):
            return self._serve()

    def why(self, call: int | None = None) -> Trace:
        """Explain the next prompt, or the prompt of a past call: one line an entry."""
        with self._journal.turn.of("why"):
            return prompt_at(self._journal.store, self.name, self._journal.setup, call, self.view).trace

    def recall(self, ref: str) -> str:
        """Return the original of a reference, whole: of this session, or of another one of its scope."""
        there = recall.named_original(self._journal.store, self.name, ref)
        return recall.read(self._journal.store, there.session, there.ref)

    def close(self) -> None:
        """Give the session up for other processes to open."""
        with self._journal.turn.of("close", needs_view=False):
            self._folds.close()
            self._journal.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prompt(self, tools: Sequence[Mapping[str, Any]], next_call: NextCall) -> Prompt:
        journal = self._journal
        if next_call.reply_tokens != journal.setup.reply_tokens:
            journal.use(journal.setup.replying(next_call.reply_tokens))
            self._planner.use(journal.setup)
        limit = journal.setup.budget.sendable
        offered = self._tools.read(tools, lambda given: self._injector.tools(given, limit))
        if not offered.declared.items() <= self._declared.items():
            self._declare(self._declared | offered.declared)
        injection, offer, fold = self._plan(offered, next_call)
        if fold:
            fold = self._folds.write(fold)
        else:
            self._folds.ask_ahead(offer.setup)
        self._record(offer, fold, injection)
        prompt = build(self.name, journal.view, journal.setup, offer.specs, journal.renderer)
        journal.estimated = prompt.tokens
        self._folds.note_sent(prompt)
        self._events.prompt(prompt, fold, self._planner.pressure(journal.view, injection.tokens, setup=offer.setup))
        return msgspec.structs.replace(prompt, fold=fold, beside=injection.lines)

    def _serve(self) -> list[ToolCall]:
        view, journal = self.view, self._journal
        atom = next((atom for atom in reversed(view.atoms) if atom.kind == "tools"), None)
        open_calls = zip(calls_of(atom), atom.answers, strict=False) if atom else ()
        waiting = [call for call, answered in open_calls if answered is None]
        ours = own_tools.ours(view.facts.setup.tools if view.facts.setup else "[]")
        own = [call for call in waiting if call.name in ours]
        answers = self._answers(own) if own else {}
        found = {call.id: answer for call in waiting if (answer := self._injector.answer(call))}
        journal.keep([body for one in (answers | found).values() for body in journal.bodies_of(one)])
        left = [call for call in waiting if call.id not in answers and call.id not in found]
        restore = journal.setup.guard.restore  # the model copies the marks of the guard
        return [msgspec.structs.replace(call, arguments=restore(unwrapped(call.arguments))) for call in left]

    def _answers(self, calls: Sequence[ToolCall]) -> dict[str, Message]:
        """Return the results of calls to Foveal's own tools, by the ids of the calls."""
        journal = self._journal
        scope, now_ms = journal.setup.policy.memory, journal.clock.now_ms()
        session = own_tools.ToolSession(journal.store, self.name, now_ms, scope)
        # A call that the provider signed is kept as it is, and a note of it is not.
        clean = journal.redact or str
        asked = (msgspec.structs.replace(call, arguments=clean(call.arguments)) for call in calls)
        return {call.id: own_tools.answer(session, call) for call in asked}

    def _extend_with_files(self, items: Sequence[object]) -> list[Entry]:
        """Keep several items together, files that were read before among them, each under the id that its text names."""
        new = [one for item in items for one in self._new_entries(item)]
        authors = {one.id: one.author for one in new if one.author}
        keep = self._follower.keep if self.view.facts.followed else self._journal.keep
        return keep([one.body for one in new], [one.id for one in new], authors=authors)

    def _new_entries(self, item: object) -> "list[context.NewEntry]":
        if isinstance(item, context.FileEntry):
            return context.file_entries(item, self._injector, self._access)
        return [context.NewEntry(body, self._journal.clock.new_id()) for body in self._journal.bodies_of(item)]

    @classmethod
    def _begun(cls, store: Store, name: str, *, begin: Callable[[Journal], None], **options: Any) -> "Session":
        """Open a session and write its first entries, or leave it closed."""
        session = cls(store, name, **options)
        try:
            begin(session._journal)
        except BaseException:
            session.close()
            raise
        return session

    def _plan(self, offered: OfferedTools, next_call: NextCall) -> tuple[Injection, Offer, Fold | None]:
        """Choose the side context and plan a fold for it. Optional context is reduced until the mandatory part fits."""
        journal, planner = self._journal, self._planner
        if marks := list(self._injector.due_marks(journal.view, journal.setup.budget.sendable)):
            journal.keep(marks)
        view, offers = journal.view, planner.offers(offered)
        is_cold = journal.setup.is_cold(view, journal.clock.now_ms())

        def beside(shown: View, setup: Setup, share: float) -> Injection:
            pressure = planner.pressure(shown, setup=setup)
            return self._injector.injection(shown, pressure, next_call, offered=offers.names, share=share)

        if again := planner.planned(view, offers):
            told = [beside(view, again.setup, share) for share in OPTIONAL_SHARES]
            fitting = [one for one in told if planner.has_room(view, again, one.tokens)]
            same = (one for one in fitting if one.context == (view.facts.context or NOTHING.context))
            if fitting:
                return next(same, fitting[0]), again, None
        for share in OPTIONAL_SHARES:
            setup = view.facts.setup or offers.with_own().setup
            injection = beside(view, setup, share)
            try:
                offer, fold = planner.plan(view, offers, taken=injection.tokens, is_cold=is_cold)
                if fold is None and offer.setup != setup:
                    # Other tools, other pressure, other reminders: planned once more.
                    setup = offer.setup
                    injection = beside(view, setup, share)
                    offer, fold = planner.plan(view, offers, taken=injection.tokens, is_cold=is_cold)
            except OverBudget as error:
                if injection.tokens > injection.mandatory:
                    continue
                raise _explained(with_fences(error, injection.mandatory), journal.setup, view) from None
            # Reminders tell the size of the prompt that they are in: after the fold, and with these tools.
            folded = view.folded(fold) if fold else view
            told = beside(folded, offer.setup, share) if fold or offer.setup != setup else injection
            if planner.has_room(folded, offer, told.tokens):
                return told, offer, fold
        raise AssertionError  # with no room for optional context, nothing but the mandatory part is left

    def _record(self, offer: Offer, fold: Fold | None, injection: Injection) -> None:
        """Write the marks of a prompt with one commit: its setup, its fold and its side context, as far as they are new."""
        self._journal.drop_fences(injection.expired)
        facts = self.view.facts
        marks: list[Body] = [offer.setup] if offer.setup != facts.setup else []
        if fold:
            marks.append(fold)
        if injection.context != (facts.context or NOTHING.context):
            marks.append(injection.context)
        if marks:
            self._journal.keep(marks, with_snapshot=fold is None)
        if fold:
            self._journal.snapshot_soon()

    def _observe(self, seq: int, entry: Entry) -> None:
        """Follow an entry that was appended: its side context, and the events that it tells of."""
        self._injector.observe(seq, entry)
        is_learned = isinstance(entry.body, Overflow)
        is_applied = is_learned and self._journal.setup.learned_limit(self.view) is not None
        self._events.entry(entry, is_applied=is_applied)

    def _declare(self, declared: Mapping[str, RetentionRule]) -> None:
        """Build the view anew with the retention that tools were defined with."""
        self._declared = dict(declared)
        self._journal.rebuild(with_retention(self._journal.setup, self._declared))
        self._planner.use(self._journal.setup)


class Branches:
    """Moves the head of one session between the branches of its log."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def rewind(self, entry_id: str, reason: str = "") -> Entry:
        """Continue from an earlier entry. The entries after it stay in the log, as a branch of their own."""
        with self._journal.turn.of("rewind"):
            return self._journal.rewind(entry_id, reason)


class Children:
    """Opens sessions for the sub-agents of one session."""

    def __init__(
        self, journal: Journal, side_context: "context.SideContext", open_begun: Callable[..., Session]
    ) -> None:
        self._journal, self._context, self._open_begun = journal, side_context, open_begun

    def open(
        self,
        name: str,
        task: str,
        *,
        system: str = "",
        inherit_turns: int = 0,
        tools: Iterable[str] = (),
        fences: Iterable[str] = (),
        refs: Iterable[str] = (),
        model: str | Model | None = None,
        policy: Policy | None = None,
        host: Host = Host(),  # noqa: B008 - a frozen value
        clock: Clock = Clock(),  # noqa: B008 - a frozen value
    ) -> Session:
        """Open a session that knows its task, the fences of these kinds, and nothing else of its parent.

        It may be offered the tools of these names only, has its own window, and by default its parent's model and policy.
        The originals of the parent's references `refs` are copied into it: its prompt names them, and it can recall them.
        `system` is its system prompt; `inherit_turns` of the parent's newest turns stand before its task. A child that was
        opened before goes on: a task that it does not know yet is appended as a new request, the task that it began with or
        has now is not repeated.
        """
        if not name or "/" in name:
            raise BadInput(
                f"{name!r} cannot name a child: a name is not empty and has no '/', which begins a child's own child"
            )
        wanted = frozenset(fences)
        for kind in wanted:
            self._context.fence_kind(kind)  # an unknown one is an error
        journal = self._journal
        setup, view = journal.setup, journal.view
        count = view.projection.measure.count
        given = hand_over(journal.store, journal.name, refs, count=count, redact=host.redact or str) if refs else []
        inherited = newest_turns(journal, inherit_turns)
        copied = [msgspec.structs.replace(fence, call=1, turn=1) for fence in view.facts.fences if fence.kind in wanted]
        return self._open_begun(
            journal.store,
            f"{journal.name}/{name}",
            begin=partial(
                begin_child, fences=copied, given=given, task=task, system_prompt=system, inherited=inherited
            ),
            model=model or Model(setup.model, setup.dialect.name, setup.counter),
            policy=policy or msgspec.structs.replace(setup.policy, memory=None),  # it knows what it is given
            host=msgspec.structs.replace(host, allowed_tools=frozenset(tools)),
            clock=clock,
        )


def _injector_for(journal: Journal, host: Host) -> "context.Injector":
    """Return the injector of a session, following its journal."""
    setup = journal.setup
    injector = context.Injector(
        setup.policy.context,
        host.environment,
        setup.counter.counter.count,
        allowed=host.allowed_tools,
        began_ms=journal.began_ms,
        past=_past_of(journal),
        scope=_scope_of(journal),
    )
    injector.follow(journal.view, journal.messages_after)
    journal.on_rewind = lambda view: injector.follow(view, journal.messages_after)
    return injector


def _past_of(journal: Journal) -> FoldedPast:
    """Return the access of foresight to what the folds of a session cover."""

    def find(words: str, without: Sequence[int]) -> "list[log_search.RelatedPassage]":
        return log_search.find_related(journal.store, journal.name, words, without=without)

    def safe(text: str) -> str:
        return journal.setup.guard.text(text)

    return FoldedPast(find, journal.is_on_branch, safe)


def _scope_of(journal: Journal) -> ScopeAccess | None:
    """Return the access of a session to its scope; None if it has no memory."""
    name, store = journal.setup.policy.memory, journal.store
    if name is None:
        return None

    def moment(time_ms: int) -> "log_search.Moment":
        return log_search.Moment(name, journal.name, time_ms)

    def find(words: str, request: str) -> "list[log_search.EarlierPassage]":
        asked_ms = store.find(journal.name, request)[0].time_ms
        return log_search.find_earlier(store, moment(asked_ms), words)

    def safe(text: str) -> str:
        return journal.setup.guard.text(text)

    return ScopeAccess(
        session=journal.name,
        changes=lambda: store.scope(name).changes(),
        notes=lambda: store.scope(name).notes(),
        statements=lambda: log_search.newest_statements(store, moment(journal.began_ms())),
        find=find,
        safe=safe,
    )


def _access_to(journal: Journal, host: Host) -> "context.SessionAccess":
    """Return the parts of a session that its side context uses."""

    def append(body: NewBody, entry_id: str, author: str | None) -> Entry:
        with journal.turn.of("an append of the side context"):
            return journal.keep([body], [entry_id], authors={entry_id: author} if author else {})[0]

    def remember(text: str, key: str | None) -> str:
        now_ms, author = journal.clock.now_ms(), recall.BY_HOST
        return recall.remember(journal.store, journal.name, text, key, author=author, time_ms=now_ms).key

    return context.SessionAccess(
        remember=remember,
        forget=lambda key: recall.forget(journal.store, journal.name, key),
        redact=journal.redact or str,
        store=journal.store,
        counter=journal.setup.counter,
        workspace=host.environment.workspace if host.environment else None,
        view=lambda: journal.view,
        new_id=journal.clock.new_id,
        append=append,
    )


def _explained(error: OverBudget, setup: ModelSetup, view: View) -> OverBudget:
    """Return the error with the source of a limit that no policy names."""
    if learned := setup.learned_limit(view):
        source = f"The limit was learned ({learned.because}); if it is wrong, call session.compaction.forget_limit()."
    elif setup.call_budget != setup.budget:
        source = f"The window leaves no more beside a reply of {setup.reply_tokens:,} tokens; ask for a shorter reply."
    else:
        return error
    advice = f"{source} Otherwise unpin entries, shorten the system prompt or offer fewer tools."
    return OverBudget(error.limit, error.parts, error.unit, advice)
