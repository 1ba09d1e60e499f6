"""From a stored log to its view, and from a view to its prompt."""

from collections.abc import Iterable
from functools import partial
from typing import cast

import msgspec

from foveal.dialects.port import ToolSpec
from foveal.dialects.renderer import Renderer
from foveal.dialects.tools import read_tools, renamed_tools
from foveal.project.retention_layers import declared_in
from foveal.project.snapshot import ViewSnapshot
from foveal.project.view import View
from foveal.session.model_setup import ModelSetup
from foveal.stores import rows as log
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Artifacts, Row, Store
from foveal.values.entry import Entry, Setup
from foveal.values.errors import BadInput, InvalidPrompt, NotFound
from foveal.values.pins import NO_PINS, collect_pins
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule
from foveal.values.trace import PROMPT_TOKENS, block_lines


def stored_snapshot(store: Store, name: str) -> ViewSnapshot | None:
    """Return the snapshot of a stored session; None if the session is new, has none, or has one of another encoding."""
    found = store.snapshot(name) if store.cards(name) else None
    return ViewSnapshot.decode(found.payload) if found else None


def read_declared_retention(store: Store, name: str, snapshot: ViewSnapshot | None) -> dict[str, RetentionRule]:
    """Return the retention that the tools of a stored session declared, as far as its snapshot knows."""
    seq = snapshot.facts.setup_seq if snapshot else 0
    if not seq:
        return {}
    setup = entries_at(store, name, [seq])[seq].body
    return declared_in(setup.retention) if isinstance(setup, Setup) else {}


def open_view(store: Store, name: str, model_setup: ModelSetup, snapshot: ViewSnapshot | None) -> View:
    """Return the view of a stored session: from its snapshot and the entries since, or else from the whole log."""
    projection = model_setup.projection(snapshot.pins if snapshot else NO_PINS)
    view = snapshot.restore(projection, partial(_readable_entries, store, name)) if snapshot else None
    if view:
        rows = store.rows(name, after=view.facts.seq)
        if not any(view.feed(row.seq, read_artifacts(store.artifacts, log.to_entry(row, name))) for row in rows):
            return view
    return view_of(log.branch(store.rows(name)), name, model_setup, store.artifacts)


def view_of(rows: Iterable[Row], name: str, model_setup: ModelSetup, artifacts: Artifacts) -> View:
    """Return the view of these rows, which are one branch."""
    pairs = [(row.seq, log.to_entry(row, name)) for row in rows]
    view = View(model_setup.projection(collect_pins(entry for _, entry in pairs)))
    for seq, entry in pairs:
        view.feed(seq, read_artifacts(artifacts, entry))  # with the pins of the whole branch, no pin makes it stale
    return view


def _readable_entries(store: Store, name: str, seqs: Iterable[int]) -> dict[int, Entry]:
    """Return the entries at these places, their artifacts read as far as a view shows them whole."""
    return {seq: read_artifacts(store.artifacts, entry) for seq, entry in entries_at(store, name, seqs).items()}


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
    view = now
    if call is not None or view is None:
        rows = log.branch(store.rows(name))
        if call is not None:
            rows = rows[: _place_of_call(rows, name, call)]
        view = view_of(rows, name, model_setup, store.artifacts)
    specs = read_tools(msgspec.json.decode(view.facts.setup.tools)) if view.facts.setup else ()
    prompt = build(name, view, model_setup, specs, Renderer(model_setup.dialect))
    lines = block_lines(view.facts.context.blocks if view.facts.context else ())
    return msgspec.structs.replace(prompt, beside=tuple(lines))


def setup_at(store: Store, name: str, call: int | None = None) -> Setup:
    """Return the newest setup of a stored session, or the setup of a past call."""
    rows = log.branch(store.rows(name))
    rows = rows[: _place_of_call(rows, name, call)] if call is not None else rows
    for row in reversed(rows):
        if row.payload.startswith((b'={"is":"setup"', b'~{"is":"setup"')):
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


def entries_at(store: Store, name: str, seqs: Iterable[int]) -> dict[int, Entry]:
    return {seq: log.to_entry(row, name) for seq, row in store.rows_at(name, seqs).items()}
