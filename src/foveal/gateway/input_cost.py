"""The price of a conversation's input: of the requests as the client asked for them, and as they were sent.

One of the two was sent, and the provider tells its tokens; the other one is estimated as if the provider counted and cached it
alike. So nothing is saved as long as nothing is folded. A call of which the provider tells nothing is estimated on both sides.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from foveal.analysis.replay.bills import bill
from foveal.models import catalogue
from foveal.models.catalogue import ModelFacts, cost_usd
from foveal.values.entry import Usage
from foveal.values.prompt import Prompt

_CACHEABLE = 1_024
"""Tokens below which most providers cache nothing, so that a miss tells nothing."""


class InputBills(msgspec.Struct, frozen=True):
    """The sums of two bills for the same calls."""

    asked_usd: float = 0.0
    """The price of the requests as the client asked for them."""
    sent_usd: float = 0.0
    """The price of the prompts of Foveal; with a gateway that only watches, of those that it would have sent."""
    priced_calls: int = 0
    """Calls that both sums are of."""
    reported_calls: int = 0
    """Calls of them that the provider told its own counts of."""
    unpriced_calls: int = 0
    """Calls of models whose prices are not known."""

    @property
    def saved_usd(self) -> float:
        """The difference; below zero if more was paid than without the gateway."""
        return self.asked_usd - self.sent_usd

    def plus(self, other: "InputBills") -> "InputBills":
        """Return the sums of both."""
        return InputBills(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class _OpenCall(NamedTuple):
    """A call whose reply is not there yet."""

    facts: ModelFacts
    asked: int
    sent: int
    kept: int
    """Leading tokens of the prompt that the one before it had as well."""
    is_whole_sent: bool
    is_moved: bool
    """Whether the prompt differs from the one before it where the cache had that: by a fold, or by other tools."""


class _Side(NamedTuple):
    """A request, and its leading tokens that the one before it had as well."""

    tokens: int
    shared: int


class InputCost:
    """Adds up the two bills of one conversation, call by call."""

    def __init__(self) -> None:
        self.bills = InputBills()
        self._open: _OpenCall | None = None
        self._last: tuple[str, int, int] = "", 0, 0
        """The model of the call before, and the tokens of its request as asked for and as made by Foveal."""
        self._facts = ModelFacts(id="")
        self._tools = ""
        self._hit: float | None = None
        """The best share of a prefix that came from the cache so far, where nothing had moved it."""

    def ask(
        self,
        prompt: Prompt,
        asked: int,
        models: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        is_whole_sent: bool = False,
    ) -> None:
        """Begin a call of which `asked` tokens were asked for. `is_whole_sent` says that all of them were sent."""
        self._settle(None)
        if self._facts.id != prompt.setup.model:
            self._facts = catalogue.find(prompt.setup.model, models)
        model, _, sent = self._last
        kept = sent if model == prompt.setup.model else 0
        if fold := prompt.fold:
            kept = min(kept, max(0, fold.after - fold.rebilled))
        is_moved = not is_whole_sent and (prompt.fold is not None or prompt.setup.tools != self._tools)
        self._tools = prompt.setup.tools
        self._open = _OpenCall(self._facts, asked, prompt.tokens, kept, is_whole_sent, is_moved)

    def report(self, usage: Usage) -> None:
        """Enter the provider's counts: of the call that was begun, or of one more that the client does not know of."""
        if self._open:
            self._settle(usage)
        elif (usd := _reported_usd(self._facts, usage)) is not None:
            self.bills = msgspec.structs.replace(self.bills, sent_usd=self.bills.sent_usd + usd)

    def _settle(self, usage: Usage | None) -> None:
        call, self._open = self._open, None
        if call is None:
            return
        model, before, _ = self._last
        self._last = call.facts.id, call.asked, call.sent
        asked = _Side(call.asked, min(before if model == call.facts.id else 0, call.asked))
        sent = _Side(call.sent, min(call.kept, call.sent))
        if usage is None or not usage.input_tokens:
            bills = (bill(call.facts, *asked).cost_usd, bill(call.facts, *sent).cost_usd)
        elif call.is_whole_sent:
            bills = (_reported_usd(call.facts, usage), self._alike_usd(call, sent, asked, usage))
        else:
            bills = (self._alike_usd(call, asked, sent, usage), _reported_usd(call.facts, usage))
        if bills[0] is None or bills[1] is None:
            self.bills = self.bills.plus(InputBills(unpriced_calls=1))
        else:
            self.bills = self.bills.plus(InputBills(bills[0], bills[1], 1, int(usage is not None)))

    def _alike_usd(self, call: _OpenCall, other: _Side, counted: _Side, usage: Usage) -> float | None:
        """Return the price of the side that was not sent, as if the provider counted, cached and billed it like the other one.

        A miss that Foveal itself has made by moving the prefix tells nothing of the other side. What the cache had beyond the
        call before, such as tools that an earlier conversation has sent, begins both requests.
        """
        factor = usage.input_tokens / max(1, counted.tokens)
        read, written = usage.cache_read_tokens, usage.cache_write_tokens
        expected, new = counted.shared * factor, usage.input_tokens - read
        hit = 1.0 if self._hit is None else self._hit
        if not call.is_moved and expected >= _CACHEABLE:
            hit = min(1.0, read / expected)
            self._hit = max(hit, self._hit or 0.0)
        tokens = int(other.tokens * factor)
        earlier = max(0.0, read - expected)
        cached = min(tokens, int(other.shared * factor * hit + earlier))
        kept = int((tokens - cached) * min(1.0, written / new)) if new > 0 else 0
        return cost_usd(call.facts, cached, kept, 0, fresh=tokens - cached - kept)


def _reported_usd(facts: ModelFacts, usage: Usage) -> float | None:
    """Return the price of the input that a provider counted; None if it is not known."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return cost_usd(facts, read, written, 0, fresh=max(0, usage.input_tokens - read - written))
