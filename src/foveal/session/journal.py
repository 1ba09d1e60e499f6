"""The log of an open session and the view of it, kept in step.

The journal is the only writer of both. An entry is durable before the view takes it in, so that a failure in between leaves a
log from which the same view is built again.
"""

from base64 import b32encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from foveal.dialects.port import WireReply
from foveal.dialects.renderer import Renderer
from foveal.dialects.tools import renamed_tools
from foveal.project.snapshot import ViewSnapshot, record_fold
from foveal.project.view import View
from foveal.record.intake import AskedModel, bodies, reply_bodies
from foveal.session.branch import BranchReader
from foveal.session.model_setup import ModelSetup
from foveal.session.options import Clock
from foveal.session.rebuild import OpenedLog, advanced, newest_row, repinned, view_after
from foveal.session.turn import SessionTurn
from foveal.stores import rows as log
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Draft, Row, Store
from foveal.text.guard import nonce
from foveal.text.redaction import Redactor
from foveal.values.entry import Body, Entry, Fence, Fold, Message, Pin, Rewind, Unpin
from foveal.values.errors import BadEntry, BadInput, NotFound, StoreError, TailLost

SNAPSHOT_EVERY = 256
"""Entries between two snapshots, and as many as the view has atoms if those are more: opening reads at most as much again
as it shows, and writing a snapshot is a small share of the appends in between, however large the view is."""

NewBody: TypeAlias = Body | log.EncodedBody


class Journal:
    """Writes the entries of one session and feeds them to its view."""

    def __init__(
        self,
        store: Store,
        name: str,
        setup: ModelSetup,
        *,
        opened: OpenedLog,
        author: str,
        clock: Clock,
        redact: Redactor | None = None,
    ) -> None:
        self.store, self.name, self.clock = store, name, clock
        self._artifacts = store.artifacts_for(name)
        self._author, self.redact = author, redact
        self.estimated: int | None = None
        """Tokens that were counted for the newest prompt; the usage of the reply is compared with them."""
        self._writer = opened.writer
        self._nonce = nonce(opened.secret) if opened.secret else ""
        self.use(setup)
        self._view = opened.view(self.setup)
        self.has_branches = self._view.facts.seq > 0
        """Whether the log may hold entries beside the branch: of a log that was there before, nobody has looked."""
        self.renderer = Renderer(setup.dialect)
        self._snapshot_due = self._view.facts.seq + SNAPSHOT_EVERY
        self._state_kept = self._view.facts.folds if self._view.facts.summary.state else -1
        """`folds` of the newest snapshot that has the state of the summary; -1 if the newest one has not."""
        self.on_entry: Callable[[int, Entry], None] = lambda seq, entry: None
        """Called after each entry that the view has taken in."""
        self.on_rewind: Callable[[View], None] = lambda view: None
        """Called with the new view after a rewind, or after entries that the view had missed."""
        self.turn = SessionTurn(name)
        """The turn of the call that is inside the session. While a write is not taken in by the view, it knows how to."""

    @property
    def view(self) -> View:
        """The branch as the next prompt would show it, before it is made to fit."""
        return self._view

    def _catch_up(self) -> None:
        """Let the view follow the log after a write that was interrupted: its entries may be there, or may come yet."""
        self._writer.append([])  # returns after all writes that were begun before it
        head, branch = newest_row(self.store, self.name), self._branch()
        self._see(view_after(head, branch, self.setup, self._view.facts.summary))
        self.on_rewind(self._view)

    def bodies_of(self, item: object) -> list[log.EncodedBody]:
        """Return the bodies that an item of the host's becomes in the log: itself, or a provider's reply read."""
        return bodies(item, self.store, self.name, self._asked(), estimated=self.estimated, redact=self.redact)

    def bodies_of_reply(self, reply: WireReply) -> list[log.EncodedBody]:
        """Return the bodies of a provider's reply that was read already."""
        return reply_bodies(reply, self._asked(), estimated=self.estimated, redact=self.redact)

    def _asked(self) -> AskedModel:
        setup, facts = self.setup, self._view.facts
        renamed = renamed_tools(facts.setup.tools if facts.setup else "[]", setup.dialect)
        return AskedModel(setup.dialect, setup.model, setup.facts.window, facts.usage, renamed)

    def append(self, new: Sequence[log.EncodedBody], entry_id: str | None = None) -> Entry:
        """Write the bodies of one item and return its first entry. Writing the same again under the same id changes nothing."""
        if entry_id is None:
            return self.keep(new)[0]
        ids = [entry_id, *(_derived_id(entry_id, i) for i in range(1, len(new)))]
        return self._known(new[0].body, entry_id) or self.keep(new, ids)[0]

    def keep(
        self,
        new: Sequence[NewBody],
        ids: Sequence[str] = (),
        *,
        authors: Mapping[str, str] = MappingProxyType({}),
        with_snapshot: bool = True,
    ) -> list[Entry]:
        """Write entries with one commit, all of them or none. Without `ids`, each gets a new one.

        `authors` names the authors of entries, by their ids, that are not the session's own.
        """
        if not new:
            return []
        entries: list[Entry] = []
        drafts: list[Draft] = []
        parent, ahead = self._view.facts.head, self._view
        for item, entry_id in zip(new, ids or [self.clock.new_id() for _ in new], strict=True):
            body, payload = item if isinstance(item, log.EncodedBody) else (item, None)
            entry = Entry(entry_id, parent, self.clock.now_ms(), authors.get(entry_id, self._author), body)
            if isinstance(body, Fold):
                ahead, body = self._ahead_of(ahead, entries, entry, body)
                entry, payload = msgspec.structs.replace(entry, body=body), None
            entries.append(entry)
            drafts.append(log.to_draft(entry, log.encoded(body).payload if payload is None else payload))
            parent = entry_id
        due = with_snapshot and self._view.facts.seq >= self._snapshot_due
        frozen = ViewSnapshot.of(self._view, with_state=False).encode() if due else None
        self.turn.catch_up = self._catch_up  # from here on, until the view has taken the entries in
        try:
            seqs = self._writer.append(drafts, snapshot=frozen)
        except BadInput:  # refused, and nothing was written
            self.turn.catch_up = None
            raise
        if due:
            self._state_kept = -1
            self._snapshot_due = self._view.facts.seq + max(SNAPSHOT_EVERY, len(self._view.atoms))
        for seq, entry in zip(seqs, entries, strict=True):
            if seq > self._view.facts.seq:  # a retry of an entry that is there already has a lower place
                self._take(seq, entry, ahead)
        self.turn.catch_up = None
        return entries

    def _ahead_of(self, ahead: View, before: Sequence[Entry], entry: Entry, fold: Fold) -> tuple[View, Fold]:
        """Return the view after a fold that is about to be written behind these entries, and the fold as it is written."""
        seq = self._view.facts.seq + len(before) + 1
        view = ahead.copy()
        if any(isinstance(one.body, Pin | Unpin) for one in before):
            # The view cannot follow those before they are written: it decides when it takes the fold in.
            return ahead, fold
        for place, one in enumerate(before, self._view.facts.seq + 1):
            if place > view.facts.seq:
                view.feed(place, read_artifacts(self._artifacts, one))
        return record_fold(view, seq, entry, fold)

    def snapshot_soon(self) -> None:
        """Write a snapshot with the next append: after a fold the view is at its smallest."""
        self._snapshot_due = 0

    def rewind(self, entry_id: str, reason: str) -> Entry:
        """Continue from an earlier entry; the entries after it become a branch of their own."""
        found = self.store.find(self.name, entry_id)
        if len(found) != 1:
            raise NotFound(f"session {self.name!r} has no entry {entry_id!r} to rewind to")
        return self.go_back(found[0], reason)

    def go_back(self, row: Row, reason: str) -> Entry:
        """Continue from the entry of this row."""
        self.has_branches = True
        body, payload = log.encoded(Rewind(reason))
        entry = Entry(self.clock.new_id(), row.id, self.clock.now_ms(), self._author, body)
        self.turn.catch_up = self._catch_up
        (seq,) = self._writer.append([log.to_draft(entry, payload)])
        self._take(seq, entry)
        self.turn.catch_up = None
        return entry

    def drop_fences(self, expired: Sequence[Fence]) -> None:
        """Let the view forget fences whose time has passed."""
        self._view.drop_fences(expired)

    def use(self, setup: ModelSetup) -> None:
        """Go on with a setup that shows the log in the same way."""
        self.setup = msgspec.structs.replace(setup, nonce=self._nonce)

    def rebuild(self, setup: ModelSetup) -> None:
        """Show the messages of the view by this setup."""
        self.use(setup)
        view, branch = self._view, self._branch()
        projection = self.setup.projection(view.projection.pins)
        self._see(view.shown_by(projection, branch.entries(view.transcript.needed(view.atoms))))

    def _branch(self) -> BranchReader:
        return BranchReader(self.store, self.name, self._artifacts)

    def _see(self, view: View) -> None:
        """Go on with a view that shows messages in another way."""
        self._view = view
        self.renderer = Renderer(self.setup.dialect)
        self._snapshot_due = 0

    def messages_after(self, seq: int) -> list[tuple[int, Message]]:
        """Return the messages of the branch after a position of the log as they were recorded, each with its position."""
        rows = {row.id: row for row in self.store.rows(self.name, after=seq)}
        found, at = list[tuple[int, Message]](), rows.get(self._view.facts.head or "")
        while at is not None:
            body = log.to_entry(at, self.name).body
            if isinstance(body, Message):
                found.append((at.seq, body))
            at = rows.get(at.parent or "")
        return found[::-1]

    def body(self, entry_id: str) -> Body | None:
        """Return the body of an entry as it was recorded; None if there is no such entry."""
        row = self._branch().row(entry_id)
        return log.to_entry(row, self.name).body if row else None

    def row(self, entry_id: str) -> Row | None:
        """Return the row of the entry of exactly this id; None if the log has none."""
        return next((row for row in self.store.find(self.name, entry_id) if row.id == entry_id), None)

    def has(self, entry_id: str) -> bool:
        """Tell whether the log has an entry of exactly this id."""
        return self.row(entry_id) is not None

    def is_on_branch(self, entry_id: str) -> bool:
        """Return whether the branch of the view holds an entry."""
        return self._branch().on_branch(entry_id, self._view.facts) is not None

    def began_ms(self) -> int:
        """Return the time of the log's first entry."""
        return next(iter(self.store.rows(self.name, upto=1))).time_ms

    def release(self) -> None:
        """Give the session up for other processes to open, with a snapshot from which the next fold can be made at once."""
        summary = self._view.facts.summary
        if self.turn.catch_up is None and summary.read and summary.state and self._state_kept != self._view.facts.folds:
            try:
                self._writer.append([], snapshot=ViewSnapshot.of(self._view).encode())
            except TailLost:
                raise
            except StoreError:
                pass  # a shortcut; the log has everything
            self._state_kept = self._view.facts.folds
        self._writer.release()

    def _known(self, body: Body, entry_id: str) -> Entry | None:
        """Return the entry of an append that was made before: a retry may come when the log has grown further."""
        row = self.row(entry_id)
        if row is None:
            return None
        entry = log.to_entry(row, self.name)
        if entry.body != body:
            raise BadEntry(
                f"entry id {entry_id} is already in the log at place {row.seq} with other content; nothing was written. "
                "Give every new entry an id of its own."
            )
        return entry

    def _take(self, seq: int, entry: Entry, ahead: View | None = None) -> None:
        """Take in an entry that was written; `ahead` is the view after a fold, if it was made before."""
        if ahead is not self._view and ahead and (ahead.facts.seq, ahead.facts.head) == (seq, entry.id):
            self._view = ahead
            self.on_entry(seq, entry)
        elif isinstance(entry.body, Rewind) and entry.parent != self._view.facts.head:
            branch = self._branch()
            parent = branch.row(entry.parent or "")
            view = view_after(parent, branch, self.setup, self._view.facts.summary)
            self._see(advanced(view, seq, entry, branch))
            self.on_entry(seq, entry)
            self.on_rewind(self._view)
        else:
            is_stale = self._view.feed(seq, read_artifacts(self._artifacts, entry))
            self.on_entry(seq, entry)
            if is_stale and isinstance(entry.body, Pin | Unpin):
                self._see(repinned(self._view, entry.body, self._branch()))


def _derived_id(first: str, number: int) -> str:
    """Return the id of a further entry of the same append: the same in a retry, and unlike the first."""
    return b32encode(sha256(f"{first}/{number}".encode()).digest())[:26].decode().lower()
