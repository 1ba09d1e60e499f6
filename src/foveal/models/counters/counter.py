"""The port: what the engine asks of anything that counts tokens."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Counter(Protocol):
    """Counts the tokens of any str, without failing and without depending on what was counted before."""

    @property
    def name(self) -> str:
        """Identifies the way of counting: two counters of one name agree on every text."""
        ...

    def count(self, text: str) -> int: ...


@runtime_checkable
class BatchCounter(Counter, Protocol):
    """A counter that is faster over many texts at once than over one after the other."""

    def count_batch(self, texts: Sequence[str]) -> list[int]: ...


def count_all(counter: Counter, texts: Sequence[str]) -> list[int]:
    """The count of each text, through the counter's batch call where it has one."""
    if isinstance(counter, BatchCounter):
        return counter.count_batch(texts)
    return [counter.count(text) for text in texts]
