"""What a fold costs and saves, and what a summary is worth carrying.

A provider's cache makes reading the same prefix cheap and changing it dear: what is folded is saved at every later call at the
price of a cache read, and everything after the first changed place is paid for once at the price of a write. What stays in a
summary is read by every call until the next fold; what does not may have to be fetched, by one more call.
"""

from typing import Literal, TypeAlias

import msgspec

MARGIN = 2.0
"""How much more must be saved than paid: how many calls will follow is a guess, and what is folded is no longer seen."""

FETCHED_TOKENS = 1_000
"""What a recall adds to the conversation: the model's call, at the price of output, and a page of the answer."""

FoldKind: TypeAlias = Literal["budget", "hand", "checkpoint", "cold", "moved", "early"]
"""What made a fold: more than is allowed; somebody's hand; the agent's own checkpoint; a cache that had forgotten everything;
other tools or another model, for which everything is billed anew anyway; or that it pays for itself."""


class Prices(msgspec.Struct, frozen=True):
    """What a token costs that was read from the cache, and one that was not. Only their ratio matters."""

    read: float
    write: float


class FoldEconomics(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a fold was decided on. The tokens that it saves and those billed anew for it stand in the fold itself."""

    kind: FoldKind
    made: int = 0
    """Calls that had been made."""
    room: int = 0
    """Tokens of messages that could still have come before a fold is forced; below zero, what there was too much."""
    growth: float = 0.0
    """Tokens that a call had added since the last fold, on average."""
    read: float = 0.0
    """The price of a million tokens that the cache holds, in USD; of plain input's price, where the model's is not known."""
    write: float = 0.0
    """The price of a million tokens that it does not hold, in the same unit."""

    @property
    def calls(self) -> int:
        """How many more calls were expected before a fold would have been forced anyway."""
        return calls_left(self.made, room=self.room, growth=self.growth)

    def calls_after(self, saved: int) -> int:
        """How many are expected before the next fold, with the room that this one makes."""
        return calls_left(self.made, room=self.room + saved, growth=self.growth)

    def gain(self, saved: int) -> float:
        """What the calls that are expected would no longer pay, in millionths of the prices' unit."""
        return saved * self.calls * self.read

    def price(self, rebilled: int) -> float:
        """What is paid once more, in the same unit."""
        return rebilled * (self.write - self.read)

    def pays(self, saved: int, rebilled: int) -> bool:
        return self.gain(saved) > MARGIN * self.price(rebilled)

    def explain(self, saved: int, rebilled: int) -> str:
        return f"{saved:,} stale tokens for about {self.calls:,} more calls against {rebilled:,} billed anew"


def carry_threshold(prices: Prices, *, calls: int, prompt: int) -> float:
    """How likely to be needed a token of a summary must be, that it is carried through so many calls of such a prompt.

    To carry it is to write it once and to read it with every call. To fetch what is missing takes a call of its own, and more:
    time, and that the model thinks of it. So it counts for more, by as much as one has to be sure.
    """
    carried = prices.write + prices.read * calls
    fetched = prices.read * prompt + prices.write * FETCHED_TOKENS
    return carried / (MARGIN * fetched)


def calls_left(made: int, *, room: int, growth: float) -> int:
    """How many more calls to expect: as many as were made, and no more than fit before the next fold.

    Of sessions that have come so far, the median goes on for about as long again.
    """
    return min(made, calls_within(room, growth))


def calls_within(room: int, growth: float) -> int:
    """How many calls have room, when each adds so much."""
    return max(0, int(room / max(growth, 1.0)))
