"""The port of token counters."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Counter(Protocol):
    """A counter of the tokens of any str. It never fails, and no count depends on an earlier one."""

    @property
    def name(self) -> str:
        """The name of the way of counting: two counters of one name agree on every text."""
        ...

    def count(self, text: str) -> int: ...


@runtime_checkable
class BatchCounter(Counter, Protocol):
    """A counter that is faster over many texts at once than over one after the other."""

    def count_batch(self, texts: Sequence[str]) -> list[int]: ...


def count_all(counter: Counter, texts: Sequence[str]) -> list[int]:
    """Return the count of each text, through the counter's batch call where it has one."""
    if isinstance(counter, BatchCounter):
        return counter.count_batch(texts)
    return [counter.count(text) for text in texts]
