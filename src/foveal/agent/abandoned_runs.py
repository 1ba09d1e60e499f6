"""Runs that are under way by their log and that nobody drives: just started, or left behind by a process that died.

A worker beats no heart of its own: the lease of its store handle is renewed while it lives, and the session of a run that it
drives is held by that lease.
"""

import logging

import msgspec

from foveal.agent.deadlines import first_deadline
from foveal.agent.driver import UNDER_WAY
from foveal.agent.inbox import is_inbox
from foveal.agent.run_log import newest_status, read_run
from foveal.agent.run_marks import StatusSet, run_name
from foveal.session.options import now_ms
from foveal.stores.port import SessionCard, Store
from foveal.values.errors import FovealError

QUIET_LOOKS = 5
"""Looks at a held session whose log does not grow between two tries whether its holder lives: a model may think for minutes, and
a try costs two round trips. The first look tries at once."""

UNREADABLE_LOOKS = 600
"""Looks at a session that cannot be read between two warnings: some ten minutes."""

logger = logging.getLogger("foveal.runs")


class _Seen(msgspec.Struct, frozen=True):
    """A session as it was at the last look."""

    entries: int | None
    """None if it could not be read: the next look tries again, although its log has not grown."""
    status: StatusSet | None
    """Its status mark, if the run does not go on with one above it, and is under way, or waits for an answer that has a
    deadline."""
    due_ms: int
    """The time from which somebody should drive it: its deadline, if it waits for an answer."""
    quiet: int
    """Looks since its log has grown, or could not be read, that one included; none if this was the first."""


class AbandonedRun(msgspec.Struct, frozen=True):
    """A run that waits for somebody to drive it."""

    run: str
    agent: str
    entries: int
    """Entries of its session's log."""


class AbandonedRuns:
    """Looks for the runs of a store that somebody should drive. Only logs that have grown since the last look are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, _Seen] = {}

    def look(self) -> list[AbandonedRun]:
        """Return the runs that nobody has, the longest waiting first. A holder that is quiet is tried now and then."""
        seen, found, time_ms = self._seen, list[AbandonedRun](), now_ms()
        self._seen = {}
        for card in reversed(self._store.cards()):
            if is_inbox(card.id):
                continue
            now = self._looked_at(card, seen.get(card.id))
            self._seen[card.id] = now
            if now.status is not None and now.due_ms <= time_ms and self._is_free(card, now.quiet):
                found.append(AbandonedRun(run_name(card.id, now.status.run), now.status.agent, card.entries))
        return found

    def _is_free(self, card: SessionCard, quiet: int) -> bool:
        if card.holder is None:
            return True
        if quiet % QUIET_LOOKS:
            return False
        try:
            self._store.acquire(card.id).release()
        except FovealError:  # its process lives
            return False
        return True

    def _looked_at(self, card: SessionCard, before: _Seen | None) -> _Seen:
        if before is not None and before.entries == card.entries:
            return msgspec.structs.replace(before, quiet=before.quiet + 1) if before.status else before
        try:
            status = newest_status(self._store, card.id, card.entries)
            due_ms = None if status is None or status.parent else self._due_ms(card.id, status)
        except FovealError as error:  # of this session alone: a damaged log must not keep the others waiting
            looks = before.quiet + 1 if before is not None and before.entries is None else 0
            if looks % UNREADABLE_LOOKS == 0:
                logger.warning("the run of session %s cannot be read: %s", card.id, error)
            return _Seen(None, None, 0, looks)
        return _Seen(card.entries, None if due_ms is None else status, due_ms or 0, 0 if before is None else 1)

    def _due_ms(self, session: str, status: StatusSet) -> int | None:
        """Return the time from which a run with this status should be driven; None if it rests."""
        if status.status == "awaiting_user":
            return first_deadline(read_run(self._store, session).asked.values())
        return 0 if status.status in UNDER_WAY else None
