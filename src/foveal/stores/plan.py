"""The rules of an append, without a store: which drafts are new, where they go, and how the chain continues."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from foveal.stores.chain import link
from foveal.stores.checks import check_repeat
from foveal.stores.port import Draft, Row


class LogEnd(NamedTuple):
    """The end of a log: how many entries it has, the last one's id, and its hash."""

    entries: int
    head: str | None
    chain: bytes


class AppendPlan(NamedTuple):
    """The rows that an append adds, each with its hash, the places of all drafts, and the end of the log after it."""

    rows: list[tuple[Row, bytes]]
    seqs: list[int]
    end: LogEnd

    @property
    def keeps_snapshot(self) -> bool:
        """Whether a view that comes with the append is the newest: that of a retry is one that the log has outgrown."""
        return not self.seqs or self.seqs[-1] == self.end.entries


def plan_append(end: LogEnd, drafts: Sequence[Draft], known: Mapping[str, Row]) -> AppendPlan:
    """Return the plan of an append to a log with this end, of whose rows those in `known` may be meant again. `BadEntry` if one
    of them is meant with another payload."""
    seen, rows, seqs = dict(known), list[tuple[Row, bytes]](), list[int]()
    entries, head, chain = end
    for draft in drafts:
        row = seen.get(draft.id)
        if row is not None:
            check_repeat(row, draft)
        else:
            entries, head = entries + 1, draft.id
            row = seen[draft.id] = Row(entries, draft.id, draft.parent, draft.time_ms, draft.author, draft.payload)
            chain = link(chain, row)
            rows.append((row, chain))
        seqs.append(row.seq)
    return AppendPlan(rows, seqs, LogEnd(entries, head, chain))
