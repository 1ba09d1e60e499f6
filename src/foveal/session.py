"""A session: append what happened, ask for the prompt, ask why.

The imperative shell around the pure core. It owns the order of things: an entry is durable before the view takes it in, and a
fold is durable before a prompt is built with it. Whatever fails in between leaves a log from which the same view is built again.
"""

import time
from base64 import b32encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from secrets import token_bytes
from types import TracebackType
from typing import Any, TypeAlias, cast

import msgspec

from foveal import log, recall_tools
from foveal.core import snapshot
from foveal.core.atoms import calls_of
from foveal.core.entry import Body, Entry, Fold, Message, Pin, Rewind, Setup, ToolCall, ToolResult, Usage
from foveal.core.errors import BadEntry, BadInput, InvalidPrompt, NotFound, OverBudget
from foveal.core.fit import fit
from foveal.core.pins import collect_pins
from foveal.core.project import View
from foveal.core.prompt import Prompt
from foveal.core.retention import Rule
from foveal.core.trace import PROMPT_TOKENS, Trace
from foveal.core.view import short_ref
from foveal.counters import ModelCounter
from foveal.declare import split_retention
from foveal.dialects.port import ToolSpec
from foveal.dialects.render import Renderer
from foveal.dialects.tools import read_tools
from foveal.offload import offload
from foveal.optics import Optics, focus, refocus
from foveal.policies import Policy
from foveal.policies.arrival import NO_RENDERERS, Renderers
from foveal.policies.retention import declared_in
from foveal.stores.port import Row, Store

RECALLED_OFTEN = 2
"""Fetches after which a result is shown again, as far as there is room."""

SNAPSHOT_EVERY = 256
"""Entries between two snapshots, and as many as the view has atoms if those are more: opening reads at most as much again
as it shows, and writing a snapshot is a small share of the appends in between, however large the view is."""


Offer: TypeAlias = tuple[tuple[ToolSpec, ...], Setup]
"""The tools of a prompt, and what it is built for."""


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
        retention: Mapping[str, Rule] | None = None,
        renderers: Renderers = NO_RENDERERS,
        author: str = "agent",
        takeover: bool = False,
        new_id: Callable[[], str] = _random_id,
        clock_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self.name, self.author = name, author
        self._store, self._new_id, self._clock_ms = store, new_id, clock_ms
        # What tools' definitions said before the session was closed still holds.
        self._declared = dict(retention or _told(store, name))
        policy = policy or Policy()
        self._optics = focus(model, policy, dialect, counter, declared=self._declared, renderers=renderers)
        self._writer = store.hold(name, takeover=takeover)
        try:
            self._view = open_view(store, name, self._optics)
        except BaseException:
            self._writer.release()
            raise
        self._renderer = Renderer(self._optics.dialect)
        self._snapshot_due = self._view.seq + SNAPSHOT_EVERY
        self._estimated: int | None = None
        self._offers: tuple[bytes | None, dict[bool, Offer]] = None, {}
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

    def prompt(self, tools: Sequence[Mapping[str, Any]] = ()) -> Prompt:
        """The next request: within the budget, valid for the provider. `OverBudget` if that cannot be."""
        tools, declared = split_retention(tools)
        if not declared.items() <= self._declared.items():
            self._declare(self._declared | declared)
        (specs, setup), fold = self._fitted(tools)
        if setup != self._view.setup:
            self._keep([setup], [self._new_id()])
        if fold:
            self._keep([fold], [self._new_id()], with_snapshot=False)
            self._snapshot_due = 0  # the view is at its smallest now: write it with the next append
        prompt = build(self.name, self._view, self._optics, specs, self._renderer)
        self._estimated = prompt.tokens
        return msgspec.structs.replace(prompt, fold=fold)

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
        self._writer.release()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def serve(self) -> list[ToolCall]:
        """Answer the newest reply's calls to the recall tools, and return its calls that are left for the host to run."""
        atom = next((atom for atom in reversed(self._view.atoms) if atom.kind == "tools"), None)
        open_calls = zip(calls_of(atom), atom.answers, strict=False) if atom else ()
        waiting = [call for call, answered in open_calls if answered is None]
        ours = recall_tools.ours(self._view.setup.tools if self._view.setup else "[]")
        self.extend(recall_tools.answer(self._store, self.name, call) for call in waiting if call.name in ours)
        return [call for call in waiting if call.name not in ours]

    def _declare(self, declared: Mapping[str, Rule]) -> None:
        """Look at the log through the retention that tools were defined with."""
        self._declared = dict(declared)
        self._optics = refocus(self._optics, self._declared)
        self._rebuild()

    def _fitted(self, tools: Sequence[Mapping[str, Any]]) -> tuple[Offer, Fold | None]:
        """The tools, with the recall tools where there is a use for them, and the fold that a prompt with them needs."""
        offer = self._offer(tools)
        most, _ = self._optics.limits(self._view, offer[1])
        if self._optics.policy.recall and (self._view.is_reduced or not self._view.size.within(most)):
            wider = self._offer(tools, with_recall=True)
            try:
                return wider, self._fit(wider[1])
            except OverBudget:
                pass  # better a prompt without a way back than none
        return offer, self._fit(offer[1])

    def _fit(self, setup: Setup) -> Fold | None:
        most, aim = self._optics.limits(self._view, setup)
        if self._view.size.within(most):
            return None
        fixed = setup.tools_tokens + PROMPT_TOKENS
        return fit(self._view, most, aim, self._optics.policy.stages, tools_tokens=fixed, wanted=self._wanted())

    def _wanted(self) -> dict[tuple[str, int], str]:
        """The originals of parts that the model has fetched again and again: showing them is cheaper than asking twice."""
        often = {ref for ref, times in self._view.recalled.items() if times >= RECALLED_OFTEN}
        parts = (
            (item.id, i)
            for atom in self._view.atoms
            for item in atom.items
            for i, shown in enumerate(item.shown)
            if often and shown.level != "full" and isinstance(shown.part, ToolResult)
        )
        return {(entry, i): self.recall(ref) for entry, i in parts if (ref := short_ref(entry, i)) in often}

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

    def _offer(self, tools: Sequence[Mapping[str, Any]], *, with_recall: bool = False) -> Offer:
        """The tools, and what a prompt with them is built for: read and counted anew only when they are other tools."""
        key = _key_of(tools)
        if key is None or self._offers[0] != key:
            self._offers = key, {}
        offers = self._offers[1]
        if with_recall not in offers:
            specs = read_tools(tools)
            if with_recall:
                names = {spec.name for spec in specs}  # a host that has a tool of the same name keeps it
                ours = read_tools(tool for tool in recall_tools.TOOLS if tool["function"]["name"] not in names)
                specs = tuple(sorted((*specs, *ours), key=lambda spec: spec.name))
            offers[with_recall] = specs, self._optics.setup(specs)
        return offers[with_recall]

    def _bodies(self, item: object) -> list[Body]:
        if isinstance(item, Message):
            return [offload(self._store, log.checked_message(item))]
        if isinstance(item, Pin):
            self._check_pin(item)
        if isinstance(item, Body.__args__):
            return [log.checked(cast("Body", item))]
        return self._parse(item)

    def _check_pin(self, pin: Pin) -> None:
        """A pin names something, and a pinned passage is one."""
        if bool(pin.entry) == bool(pin.tool):
            raise BadEntry("a pin names an entry or a tool, one of the two")
        if pin.text and pin.text not in self.recall(f"{pin.entry}..{pin.entry}"):
            raise BadEntry(f"the passage to pin, {pin.text[:40]!r}, does not stand in entry {pin.entry}")

    def _parse(self, reply: object) -> list[Body]:
        """A provider's reply: the message, and what it cost."""
        plain = _plain(reply)
        if plain is None:
            raise BadInput(f"a {type(reply).__name__} is neither an entry nor a reply of a provider's SDK")
        try:
            message, usage = self._optics.dialect.parse(plain)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            what = f"this is not a reply of the {self._optics.dialect.name} dialect ({type(error).__name__}: {error})"
            raise BadInput(f"{what}; was it made with another model's SDK?") from error
        # Providers answer with a dated name; what counts for signatures is the model that was asked.
        message = msgspec.structs.replace(message, model=self._optics.model)
        message = log.checked_message(message)
        if usage is None:
            return [message]
        return [message, msgspec.structs.replace(usage, model=self._optics.model, estimated=self._estimated)]

    def _keep(self, bodies: list[Body], ids: list[str], *, with_snapshot: bool = True) -> list[Entry]:
        entries: list[Entry] = []
        parent = self._view.head
        for body, entry_id in zip(bodies, ids, strict=True):
            entries.append(Entry(entry_id, parent, self._clock_ms(), self.author, body))
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
        if self._view.stale:
            self._rebuild()

    def _rebuild(self) -> None:
        self._view = view_of(log.branch(self._store.rows(self.name)), self.name, self._optics)
        self._renderer = Renderer(self._optics.dialect)
        self._offers = None, {}
        self._snapshot_due = 0


def _key_of(tools: Sequence[Mapping[str, Any]]) -> bytes | None:
    """What two lists of the same tools have in common; None for what is no plain JSON."""
    try:
        return msgspec.json.encode(tools)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _derived_id(first: str, number: int) -> str:
    """The id of a further entry of the same append: the same in a retry, and nothing like the first."""
    return b32encode(sha256(f"{first}/{number}".encode()).digest())[:26].decode().lower()


def _plain(reply: object) -> Mapping[str, Any] | None:
    """A reply as a mapping, if it is one or can say so."""
    if isinstance(reply, Mapping):
        return cast("Mapping[str, Any]", reply)
    dump: Callable[..., Mapping[str, Any]] | None = getattr(reply, "model_dump", None)
    # What the provider did not send stays unsaid, and what its SDK does not know yet is no reason to warn.
    return dump(exclude_unset=True, warnings=False) if dump else None


def _told(store: Store, name: str) -> dict[str, Rule]:
    """The retention that the tools of a stored session declared, as far as its snapshot knows."""
    frozen = store.snapshot(name) if store.cards(name) else None
    seq = snapshot.setup_seq_in(frozen.payload) if frozen else 0
    if not seq:
        return {}
    setup = _entries_at(store, name, [seq])[seq].body
    return declared_in(setup.retention) if isinstance(setup, Setup) else {}


def open_view(store: Store, name: str, optics: Optics) -> View:
    """The view of a stored session, from its snapshot where there is one."""
    frozen = store.snapshot(name)
    if frozen:
        lens = optics.lens(snapshot.pins_in(frozen.payload))
        view = snapshot.load(frozen.payload, lens, lambda seqs: _entries_at(store, name, seqs))
        if view:
            for row in store.rows(name, after=view.seq):
                view.feed(row.seq, log.to_entry(row, name))
            if not view.stale:
                return view
    return view_of(log.branch(store.rows(name)), name, optics)


def view_of(rows: Iterable[Row], name: str, optics: Optics) -> View:
    """The view of these rows, which are one branch."""
    pairs = [(row.seq, log.to_entry(row, name)) for row in rows]
    view = View(optics.lens(collect_pins(entry for _, entry in pairs)))
    for seq, entry in pairs:
        view.feed(seq, entry)
    view.stale = False
    return view


def build(name: str, view: View, optics: Optics, specs: tuple[ToolSpec, ...], renderer: Renderer) -> Prompt:
    """The prompt of a view that fits. Validated before anybody sees it."""
    setup = view.setup or optics.setup(specs)
    lead, wires, since = renderer.render(view)
    if not wires and not lead:
        raise BadInput(f"session {name!r} has nothing to send yet; append a message first")
    request = optics.dialect.request(optics.ask(specs, name[:64]), lead, wires)
    if problems := optics.dialect.problems(request, since):
        renderer.forget()  # else the next prompt would be checked from here on only
        raise InvalidPrompt(optics.dialect.name, problems)
    tokens = view.size.tokens + setup.tools_tokens + PROMPT_TOKENS
    return Prompt(name, view.calls + 1, request, wires, tokens, None, setup, tuple(view.atoms))


def prompt_at(store: Store, name: str, optics: Optics, call: int | None, now: View | None = None) -> Prompt:
    """The prompt of a call: of the next one, or of a past one as it was sent, built again from the log."""
    view = now.copy() if now else None  # the renderer below is not the one that follows the changes of `now`
    if call is not None or view is None:
        rows = log.branch(store.rows(name))
        if call is not None:
            rows = rows[: _place_of_call(rows, name, call)]
        view = view_of(rows, name, optics)
    specs = read_tools(msgspec.json.decode(view.setup.tools)) if view.setup else ()
    return build(name, view, optics, specs, Renderer(optics.dialect))


def setup_at(store: Store, name: str, call: int | None = None) -> Setup:
    """What the prompts of a stored session were last built for (at this call)."""
    rows = log.branch(store.rows(name))
    rows = rows[: _place_of_call(rows, name, call)] if call is not None else rows
    for row in reversed(rows):
        if row.payload.startswith(b'={"is":"setup"'):
            return cast("Setup", log.to_entry(row, name).body)
    raise NotFound(f"session {name!r} has no prompt yet: nothing says which model it is for")


def _place_of_call(rows: list[Row], name: str, call: int) -> int:
    places = [
        i
        for i, row in enumerate(rows)
        if row.payload.startswith((b'={"is":"message","role":"assistant"', b'~{"is":"message","role":"assistant"'))
    ]
    if 1 <= call <= len(places):
        return places[call - 1]
    if call == len(places) + 1:
        return len(rows)
    raise NotFound(f"session {name!r} has {len(places)} calls; there is no call {call}")


def _entries_at(store: Store, name: str, seqs: Iterable[int]) -> dict[int, Entry]:
    return {seq: log.to_entry(row, name) for seq, row in store.rows_at(name, seqs).items()}


__all__ = ["BadEntry", "Session", "Usage", "build", "open_view", "prompt_at", "setup_at", "view_of"]
