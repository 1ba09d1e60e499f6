"""The log of an open session and the view of it, kept in step.

The journal is the only writer of both. An entry is durable before the view takes it in, so that a failure in between leaves a
log from which the same view is built again.
"""

from base64 import b32encode
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256

from foveal.dialects.renderer import Renderer
from foveal.project import snapshot
from foveal.project.retention_layers import declared_in
from foveal.project.view import ATTACHED, View
from foveal.record.intake import Spoken, bodies
from foveal.session.model_setup import ModelSetup, with_retention
from foveal.session.options import Clock
from foveal.session.rebuild import open_view, view_of
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.entry import Body, Entry, Rewind
from foveal.values.errors import BadEntry, NotFound
from foveal.values.retention import RetentionRule

SNAPSHOT_EVERY = 256
"""Entries between two snapshots, and as many as the view has atoms if those are more: opening reads at most as much again
as it shows, and writing a snapshot is a small share of the appends in between, however large the view is."""


class Journal:
    """Writes the entries of one session and feeds them to its view."""

    def __init__(self, store: Store, name: str, setup: ModelSetup, *, author: str, clock: Clock, takeover: bool) -> None:
        self.store, self.name, self.setup = store, name, setup
        self._author, self._clock = author, clock
        self.estimated: int | None = None
        """Tokens that were counted for the newest prompt; the usage of the next reply is compared with it."""
        self._writer = store.hold(name, takeover=takeover)
        try:
            self.view = open_view(store, name, setup)
        except BaseException:
            self._writer.release()
            raise
        self.renderer = Renderer(setup.dialect)
        self._snapshot_due = self.view.seq + SNAPSHOT_EVERY
        self.on_entry: Callable[[int, Entry], None] = lambda seq, entry: None
        """Called after each entry that the view has taken in."""
        self.on_rewind: Callable[[View], None] = lambda view: None
        """Called with the new view after a rewind."""
        self.on_rebuild: Callable[[], None] = lambda: None
        """Called when the view was built anew."""

    @property
    def now_ms(self) -> int:
        """Current time in milliseconds."""
        return self._clock.now_ms()

    def new_id(self) -> str:
        """Return an id for a new entry."""
        return self._clock.new_id()

    def bodies_of(self, item: object) -> list[Body]:
        """Return the bodies that an item of the host's becomes in the log: itself, or a provider's reply read."""
        setup = self.setup
        spoken = Spoken(setup.dialect, setup.model, setup.facts.window)
        return bodies(item, self.store, self.name, spoken, estimated=self.estimated)

    def append(self, new: Sequence[Body], *, id: str | None = None) -> Entry:  # noqa: A002 - the entry's id
        """Write the bodies of one item and return its first entry. Writing the same again under the same `id` changes nothing."""
        if id is None:
            return self.keep(new)[0]
        ids = [id, *(_derived_id(id, i) for i in range(1, len(new)))]
        return self._known(new, ids) or self.keep(new, ids)[0]

    def keep(
        self,
        new: Sequence[Body],
        ids: Sequence[str] | None = None,
        *,
        attached: Collection[str] = (),
        with_snapshot: bool = True,
    ) -> list[Entry]:
        """Write entries, all of them or none, with one commit.

        Entries whose id is in `attached` are recorded as attachments, not as the words of the session's author.
        """
        entries: list[Entry] = []
        parent = self.view.head
        for body, entry_id in zip(new, ids or [self.new_id() for _ in new], strict=True):
            author = ATTACHED if entry_id in attached else self._author
            entries.append(Entry(entry_id, parent, self.now_ms, author, body))
            parent = entry_id
        due = with_snapshot and self.view.seq >= self._snapshot_due
        frozen = snapshot.dump(self.view) if due else None
        seqs = self._writer.append([log.to_draft(entry) for entry in entries], snapshot=frozen)
        if due:
            self._snapshot_due = self.view.seq + max(SNAPSHOT_EVERY, len(self.view.atoms))
        for seq, entry in zip(seqs, entries, strict=True):
            if seq > self.view.seq:  # a retry of an entry that is there already has a lower place
                self._take(seq, entry)
        return entries

    def snapshot_soon(self) -> None:
        """Write a snapshot with the next append: after a fold the view is at its smallest."""
        self._snapshot_due = 0

    def rewind(self, entry_id: str, reason: str) -> Entry:
        """Continue the branch from an earlier entry."""
        found = self.store.find(self.name, entry_id)
        if len(found) != 1:
            raise NotFound(f"session {self.name!r} has no entry {entry_id!r} to rewind to")
        entry = Entry(self.new_id(), found[0].id, self.now_ms, self._author, Rewind(reason))
        (seq,) = self._writer.append([log.to_draft(entry)])
        self._take(seq, entry)
        return entry

    def declare(self, retention: Mapping[str, RetentionRule]) -> None:
        """Build the view anew with the retention that tools were defined with."""
        self.setup = with_retention(self.setup, retention)
        self._rebuild()

    def has(self, entry_id: str) -> bool:
        """Tell whether the log has an entry of exactly this id."""
        return any(row.id == entry_id for row in self.store.find(self.name, entry_id))

    def declared_since_snapshot(self) -> dict[str, RetentionRule]:
        """Return the retention that the newest prompt's tools declared, as the view knows it."""
        return declared_in(self.view.setup.retention) if self.view.setup else {}

    def began_ms(self) -> int:
        """Return the time of the log's first entry, whoever has the session open now."""
        return next(iter(self.store.rows(self.name, upto=1))).time_ms

    def release(self) -> None:
        """Give the session up for other processes to open."""
        self._writer.release()

    def _known(self, new: Sequence[Body], ids: Sequence[str]) -> Entry | None:
        """Return the entry of an append that was made before: a retry may come when the log has grown further."""
        row = next((row for row in self.store.find(self.name, ids[0]) if row.id == ids[0]), None)
        if row is None:
            return None
        entry = log.to_entry(row, self.name)
        if entry.body != new[0]:
            raise BadEntry(
                f"entry id {ids[0]} is already in the log at place {row.seq} with other content; nothing was written. "
                "Give every new entry an id of its own."
            )
        return entry

    def _take(self, seq: int, entry: Entry) -> None:
        self.view.feed(seq, entry)
        self.on_entry(seq, entry)
        if self.view.stale:
            self._rebuild()
            if isinstance(entry.body, Rewind):
                self.on_rewind(self.view)

    def _rebuild(self) -> None:
        self.view = view_of(log.branch(self.store.rows(self.name)), self.name, self.setup)
        self.renderer = Renderer(self.setup.dialect)
        self._snapshot_due = 0
        self.on_rebuild()


def _derived_id(first: str, number: int) -> str:
    """Return the id of a further entry of the same append: the same in a retry, and unlike the first."""
    return b32encode(sha256(f"{first}/{number}".encode()).digest())[:26].decode().lower()
