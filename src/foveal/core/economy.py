"""When a fold that nothing forces pays for itself.

A provider's cache makes reading the same prefix cheap and changing it dear: what is folded is saved at every later call at the
price of a cache read, and everything after the first changed place is paid for once at the price of a write.
"""

import msgspec

SURE = 2.0
"""How much more must be saved than paid: how many calls will follow is a guess, and what is folded is no longer seen."""


class Prices(msgspec.Struct, frozen=True):
    """What a token costs that was read from the cache, and one that was not. Only their ratio matters."""

    read: float
    write: float


class Stake(msgspec.Struct, frozen=True):
    """What an early fold would save and cost."""

    saved: int
    """Tokens that later calls no longer send."""
    rebilled: int
    """Tokens that the next call pays for anew."""
    calls: int
    """How many more calls are expected before a fold is forced anyway."""

    def pays(self, prices: Prices) -> bool:
        return self.saved * self.calls * prices.read > SURE * self.rebilled * (prices.write - prices.read)

    def __str__(self) -> str:
        return f"{self.saved:,} stale tokens for about {self.calls:,} more calls against {self.rebilled:,} billed anew"


def calls_left(made: int, *, room: int, growth: float) -> int:
    """How many more calls to expect: as many as were made, and no more than fit before the next fold.

    Of sessions that have come so far, the median goes on for about as long again.
    """
    return max(0, min(made, int(room / max(growth, 1.0))))
