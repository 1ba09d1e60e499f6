"""A store in memory that counts the rows that are read from it: an act must read as many in a long session as in a short one."""

from collections.abc import Iterable, Iterator

from foveal.stores.memory import MemoryStore
from foveal.stores.port import Row


class CountingStore(MemoryStore):
    """A store that counts the rows that are asked for, but for those that come with the opening of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        for row in super().rows(session, after=after, upto=upto):
            self.read += 1
            yield row

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        found = super().rows_at(session, seqs)
        self.read += len(found)
        return found
