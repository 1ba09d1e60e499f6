"""The cost and gain of a fold, and the threshold for carrying a token in a summary.

A provider's cache makes reading the same prefix cheap and changing it dear: folded tokens are saved at every later call at the
price of a cache read, and everything after the first changed place is paid for once at the price of a write. A token in a
summary is read by every call until the next fold; a token left out may have to be fetched, by one more call.
"""

from typing import Literal, TypeAlias

import msgspec

MARGIN = 2.0
"""Factor by which the gain must exceed the price: the number of later calls is a guess, and folded content is no longer seen."""

FETCHED_TOKENS = 1_000
"""Tokens that a recall adds to the conversation: the model's call, at the price of output, and a page of the answer."""

FoldKind: TypeAlias = Literal["budget", "hand", "checkpoint", "cold", "moved", "early", "economy"]
"""Cause of a fold: the budget; a person; the agent's own checkpoint; a cold cache; other tools or another model, for which
everything is billed anew anyway; or a fold that pays for itself, of stale results (`early`) or of the oldest part of a
conversation that the window would still hold (`economy`)."""


class Prices(msgspec.Struct, frozen=True):
    """Prices of a token that is read from the cache, and of one that is not. Only their ratio matters."""

    read: float
    write: float


class FoldEconomics(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures that a fold was decided on. The tokens saved and billed anew are in the fold itself."""

    kind: FoldKind
    made: int = 0
    """Calls made before it."""
    room: int = 0
    """Tokens of messages that still fitted before a fold was forced; negative if there were too many."""
    growth: float = 0.0
    """Tokens that a call had added since the last fold, on average."""
    read: float = 0.0
    """The price of a million tokens that the cache holds, in USD; of plain input's price, where the model's is not known."""
    write: float = 0.0
    """The price of a million tokens that it does not hold, in the same unit."""

    @property
    def calls(self) -> int:
        """Number of calls expected before a fold would have been forced anyway."""
        return calls_left(self.made, room=self.room, growth=self.growth)

    def calls_after(self, saved: int) -> int:
        """Return the number of calls expected before the next fold, with the room that this one makes."""
        return calls_left(self.made, room=self.room + saved, growth=self.growth)

    def gain(self, saved: int) -> float:
        """Return the amount that the expected calls save, in millionths of the prices' unit."""
        return saved * self.calls * self.read

    def price(self, rebilled: int) -> float:
        """Return the amount that is paid once more, in the same unit."""
        return rebilled * (self.write - self.read)

    def pays(self, saved: int, rebilled: int) -> bool:
        """Return whether the gain exceeds the price by `MARGIN`."""
        return self.gain(saved) > MARGIN * self.price(rebilled)

    def explain(self, saved: int, rebilled: int) -> str:
        """Return the reason that is recorded with an early fold."""
        saves = f"{saved:,} {'tokens less' if self.kind == 'economy' else 'stale tokens'}"
        return f"{saves} for about {self.calls:,} more calls against {rebilled:,} billed anew"


def carry_threshold(prices: Prices, *, calls: int, prompt: int) -> float:
    """Return the least probability of being needed at which a token of a summary is worth carrying.

    A carried token is written once and read by each of `calls` calls. A missing one is fetched by one more call of a prompt of
    `prompt` tokens, which also takes time and depends on the model's initiative; so fetching counts `MARGIN` times.
    """
    carried = prices.write + prices.read * calls
    fetched = prices.read * prompt + prices.write * FETCHED_TOKENS
    return carried / (MARGIN * fetched)


def calls_left(made: int, *, room: int, growth: float) -> int:
    """Return the number of further calls to expect: as many as were made, and no more than fit before the next fold.

    At any length, the median session goes on for about as long again.
    """
    return min(made, calls_within(room, growth))


def calls_within(room: int, growth: float) -> int:
    """Return the number of calls that fit in `room` tokens if each adds `growth`."""
    return max(0, int(room / max(growth, 1.0)))
