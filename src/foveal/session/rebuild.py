"""From a stored log to its view, and from a view to its prompt."""

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from foveal.dialects.port import ToolSpec
from foveal.dialects.renderer import Renderer
from foveal.dialects.tools import read_tools, renamed_tools
from foveal.project.facts import Facts, LatestSummary
from foveal.project.projection import Projection
from foveal.project.retention_layers import declared_in
from foveal.project.snapshot import ViewSnapshot, layout_of
from foveal.project.view import View
from foveal.session.branch import BranchReader, ListedRows
from foveal.session.model_setup import ModelSetup
from foveal.stores import rows as log
from foveal.stores.opened import OpenedRows
from foveal.stores.port import Artifacts, Opened, Row, Store
from foveal.values.entry import Entry, Message, Pin, Setup, Unpin
from foveal.values.errors import BadInput, InvalidPrompt, NotFound
from foveal.values.pins import NO_PINS
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule
from foveal.values.shown import Atom
from foveal.values.trace import PROMPT_TOKENS, block_lines


class OpenedLog:
    """The log of a session that its writer has just opened: the rows that came with it, and the store for all others."""

    def __init__(self, store: Store, name: str, opening: Opened) -> None:
        self.writer, self.secret = opening.writer, opening.secret
        found = opening.snapshot
        self.snapshot = ViewSnapshot.decode(found.payload) if found else None
        """None if the session is new, has no snapshot, or has one of another encoding."""
        self.rows, self._name = OpenedRows(store, opening), name
        if self.snapshot:
            self.rows.rows_at(name, self.snapshot.places())  # one question for everything that the view needs
        self.branch = BranchReader(self.rows, name, store.artifacts_for(name))

    def declared_retention(self) -> dict[str, RetentionRule]:
        """Return the retention that the tools of the session declared, as far as its snapshot knows."""
        seq = self.snapshot.facts.setup_seq if self.snapshot else 0
        setup = log.to_entry(self.rows.rows_at(self._name, [seq])[seq], self._name).body if seq else None
        return declared_in(setup.retention) if isinstance(setup, Setup) else {}

    def view(self, model_setup: ModelSetup) -> View:
        """Return the view: from the snapshot and the entries since, or else from the newest fold."""
        snapshot, branch = self.snapshot, self.branch
        view = snapshot.restore(model_setup.projection(), branch.entries) if snapshot else None
        rows = list(branch.since(view.facts.seq)) if view else []
        if view and _is_straight(view.facts.head, rows):
            return with_state(fed(view, rows, branch), branch)
        return view_after(self.rows.newest(self._name), branch, model_setup)


def newest_view(store: Store, name: str, model_setup: ModelSetup) -> View:
    """Return the view of a stored session, from its newest fold."""
    return view_after(newest_row(store, name), BranchReader(store, name, store.artifacts_for(name)), model_setup)


def view_after(
    head: Row | None, branch: BranchReader, model_setup: ModelSetup, known: LatestSummary | None = None
) -> View:
    """Return the view after this row: from the newest fold of its branch that has a layout, and the rows since.

    `known` is a summary whose state is at hand: it is taken if it is of the same messages.
    """
    projection = model_setup.projection()
    layout, rows = branch.from_layout(head) if head else (None, [])
    view = layout.restore(projection, branch.entries) if layout else None
    if layout and head and view is None:
        rows = list(branch.back(head))[::-1]
    view = fed(view or View(projection), rows, branch)
    if known and known.packed == view.facts.summary.packed:
        view.facts = msgspec.structs.replace(view.facts, summary=known)
    return with_state(view, branch)


def view_of(rows: Iterable[Row], name: str, model_setup: ModelSetup, artifacts: Artifacts) -> View:
    """Return the view of these rows, which are one branch, by reading all of them."""
    listed = list(rows)
    branch = BranchReader(ListedRows(listed), name, artifacts)
    return with_state(fed(View(model_setup.projection()), listed, branch), branch)


def fed(view: View, rows: Iterable[Row], branch: BranchReader) -> View:
    """Return the view after these rows, which follow it on its branch."""
    for row in rows:
        view = advanced(view, row.seq, branch.entry(row), branch)
    return view


def advanced(view: View, seq: int, entry: Entry, branch: BranchReader) -> View:
    """Return the view after the next entry of its branch; the same one, unless the entry changes how others are shown."""
    is_stale = view.feed(seq, entry)
    return repinned(view, entry.body, branch) if is_stale and isinstance(entry.body, Pin | Unpin) else view


def repinned(view: View, mark: Pin | Unpin, branch: BranchReader) -> View:
    """Return the view with one pin more or less. A message that a fold covers is shown again, a passage of it by the gap."""
    projection = msgspec.structs.replace(view.projection, pins=view.projection.pins.after(mark))
    transcript = view.transcript.copy(projection)
    is_gone = isinstance(mark, Unpin) and transcript.let_go(mark.entry)
    place = None if is_gone else transcript.place(mark.entry)
    changed = {place} if place is not None else set[int]()
    is_shown = place is not None and any(item.id == mark.entry for item in transcript.atoms[place].items)
    if mark.text:
        changed.update(transcript.quoting((mark.entry, mark.text)))
    if isinstance(mark, Pin) and mark.entry and not is_shown:
        covered = covered_atom(mark.entry, view.facts, branch, view.projection)
        if covered and mark.text:
            changed.update(transcript.quote(covered, (mark.entry, mark.text)))
        elif covered:
            changed = {transcript.bring_back(covered, branch.entries(transcript.needed([covered])))}
    places = range(len(transcript.atoms)) if mark.tool else changed
    found = branch.entries(transcript.needed(transcript.atoms[i] for i in places))
    return View(projection, view.facts, transcript).shown_by(projection, found, places)


def covered_atom(entry_id: str, facts: Facts, branch: BranchReader, projection: Projection) -> Atom | None:
    """Return the atom that held an entry before a fold covered it; None if the entry is no message of the branch."""
    row = branch.on_branch(entry_id, facts)
    if row is None or not isinstance(branch.entry(row).body, Message):
        return None
    fold, _ = branch.first_fold(facts, lambda seq, _calls: seq > row.seq and not branch.shows(seq, entry_id))
    last = _before(fold, branch) if fold else branch.row(facts.head or "")
    layout, rows = branch.from_layout(last) if last else (None, [])
    view, found = layout.restore(projection, branch.entries) if layout else None, None
    view = view or View(msgspec.structs.replace(projection, pins=NO_PINS))
    for one in rows:
        if (place := view.place(entry_id)) is not None and view.atoms[place].gap is None:
            found = view.atoms[place]
        view.feed(one.seq, branch.entry(one))  # whether others are pinned or not makes no difference to this atom
    place = view.place(entry_id)
    return view.atoms[place] if place is not None and view.atoms[place].gap is None else found


def with_state(view: View, branch: BranchReader) -> View:
    """Give the summary of a view the state from which the next one is made, if the log keeps it."""
    summary = view.facts.summary
    if summary.base and not summary.state:
        entry = branch.entries([summary.base]).get(summary.base)
        layout = layout_of(entry) if entry else None
        if layout:
            known = msgspec.structs.replace(summary, state=layout.facts.summary.state)
            view.facts = msgspec.structs.replace(view.facts, summary=known)
    return view


def build(name: str, view: View, model_setup: ModelSetup, specs: tuple[ToolSpec, ...], renderer: Renderer) -> Prompt:
    """Build and validate the prompt of a view that fits, without the trace lines of its side context."""
    setup = view.facts.setup or model_setup.setup(specs)
    blocks = view.facts.context.blocks if view.facts.context else ()
    lead, wires, tail, since = renderer.render(view, blocks)
    if not wires and not lead:
        raise BadInput(f"session {name!r} has nothing to send yet; append a message first")
    request = model_setup.dialect.request(model_setup.ask(specs, name[:64], setup.reply_tokens), lead, wires, tail)
    if problems := model_setup.dialect.problems(request, since):
        renderer.forget()  # else the next prompt would be checked from here on only
        raise InvalidPrompt(model_setup.dialect.name, problems)
    tokens = view.size.tokens + setup.tools_tokens + PROMPT_TOKENS + sum(block.tokens for block in blocks)
    return Prompt(
        name,
        view.facts.calls + 1,
        request,
        wires,
        tokens,
        None,
        setup,
        tuple(view.atoms),
        renamed_tools=renamed_tools(setup.tools, model_setup.dialect),
        decided=view.facts.decided,
        notes=model_setup.notes(view),
    )


def prompt_at(store: Store, name: str, model_setup: ModelSetup, call: int | None, now: View | None = None) -> Prompt:
    """Build the prompt of the next call, or of a past one as it was sent, from the log."""
    return prompt_of(name, view_at(store, name, model_setup, call, now), model_setup)


def view_at(store: Store, name: str, model_setup: ModelSetup, call: int | None, now: View | None = None) -> View:
    """Return the view of which the prompt of the next call, or of a past one, is made. `now` is the newest view, if at hand."""
    view = now or newest_view(store, name, model_setup)
    if call is not None:
        branch = BranchReader(store, name, store.artifacts_for(name))
        head = branch.row(view.facts.head or "")
        reply = branch.reply(head, view.facts, call) if head else None
        if reply:
            view = view_after(_before(reply, branch), branch, model_setup)
    return view


def prompt_of(name: str, view: View, model_setup: ModelSetup) -> Prompt:
    """Build the prompt of a view as its log records it, with the trace lines of its side context."""
    specs = read_tools(msgspec.json.decode(view.facts.setup.tools)) if view.facts.setup else ()
    prompt = build(name, view, model_setup, specs, Renderer(model_setup.dialect))
    lines = block_lines(view.facts.context.blocks if view.facts.context else ())
    return msgspec.structs.replace(prompt, beside=tuple(lines))


def setup_at(store: Store, name: str, call: int | None = None) -> Setup:
    """Return the newest setup of a stored session, or the setup of a past call."""
    branch = BranchReader(store, name, store.artifacts_for(name))
    head = newest_row(store, name)
    if head and call is not None:
        reply = branch.reply(head, branch.calls_and_trail(head), call)
        head = _before(reply, branch) if reply else head
    for row in branch.back(head) if head else ():
        layout = branch.layout(row)
        if layout and layout.facts.setup_seq:
            return cast("Setup", branch.entries([layout.facts.setup_seq])[layout.facts.setup_seq].body)
        if row.payload.startswith((b'={"is":"setup"', b'~{"is":"setup"')):
            return cast("Setup", branch.entry(row).body)
    raise NotFound(f"session {name!r} has no prompt yet: nothing says which model it is for")


def newest_row(store: Store, name: str) -> Row | None:
    """Return the newest row of a session, which is the head of its branch; None if it has no entries yet."""
    card = next(iter(store.cards(name)), None)
    if card is None:
        return next(store.rows(name), None)  # raises `NotFound`
    return store.rows_at(name, [card.entries]).get(card.entries) if card.entries else None


def _before(row: Row, branch: BranchReader) -> Row | None:
    return branch.row(row.parent) if row.parent else None


def _is_straight(head: str | None, rows: Sequence[Row]) -> bool:
    """Return whether each of these rows follows the one before it, and the first this head."""
    return all(row.parent == before for before, row in zip((head, *(row.id for row in rows)), rows, strict=False))


def entries_at(store: Store, name: str, seqs: Iterable[int]) -> dict[int, Entry]:
    return {seq: log.to_entry(row, name) for seq, row in store.rows_at(name, seqs).items()}
