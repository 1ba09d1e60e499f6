"""The port of token counters."""

from typing import Protocol


class Counter(Protocol):
    """A counter of the tokens of any str. It never fails, and no count depends on an earlier one."""

    @property
    def name(self) -> str:
        """The name of the way of counting: two counters of one name agree on every text."""
        ...

    def count(self, text: str) -> int: ...
