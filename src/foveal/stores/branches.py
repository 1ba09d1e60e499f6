"""The branches of a session: the ends of its log, and the place at which each of them left another one."""

from collections.abc import Iterable

import msgspec

from foveal.stores.port import Row


class LogBranch(msgspec.Struct, frozen=True):
    """A way through the log from its beginning to an entry that nothing follows."""

    head: str
    """The id of its last entry."""
    seq: int
    """The place of that entry in the log."""
    time_ms: int
    entries: int
    """Entries on the way, from the first of the log."""
    forked_from: str | None
    """The id of the last entry that it shares with an older branch; None for the first."""


def list_branches(rows: Iterable[Row]) -> list[LogBranch]:
    """Return the branches of a log, the one that was last written first."""
    parents, depths = dict[str, str | None](), dict[str, int]()
    ends, first_child = dict[str, Row](), dict[str | None, str]()
    for row in rows:
        parent = row.parent if row.parent in parents else None
        parents[row.id], depths[row.id] = parent, depths.get(parent or "", 0) + 1
        first_child.setdefault(parent, row.id)
        ends.pop(parent or "", None)
        ends[row.id] = row
    found = list[LogBranch]()
    for row in ends.values():
        at: str | None = row.id
        while at is not None and first_child[parents[at]] == at:
            at = parents[at]
        found.append(LogBranch(row.id, row.seq, row.time_ms, depths[row.id], None if at is None else parents[at]))
    return sorted(found, key=lambda branch: -branch.seq)
