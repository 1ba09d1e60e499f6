"""Crash points: the log of a session as a process would find it that was killed after any of its entries."""

from foveal.stores import open_store
from foveal.stores.port import Draft, Store


def cut_log(store: Store, session: str, entries: int) -> Store:
    """Return a new store in memory that holds the first entries of a session's log, and nothing else.

    Entries that were written with one commit may be cut apart, which no crash can do: a program that survives this survives
    those.
    """
    cut = open_store()
    drafts = [
        Draft(row.id, row.parent, row.time_ms, row.author, row.payload) for row in store.rows(session, upto=entries)
    ]
    writer = cut.acquire(session, secret=store.secret(session))
    writer.append(drafts)
    writer.release()
    return cut
