"""Bills of calls: cached prefix, provider rules, prices; of the prompts that were sent, of the whole history instead, and of the
calls as they were recorded.

The cached prefix of a call is the part that it shares with the call before it, message by message, from the first on; a
provider caches nothing below its minimum and in whole blocks. The shared part is read, the rest is written. Output is billed
as it was recorded, whichever prompt it answered.
"""

from collections.abc import Container, Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from foveal.models.catalogue import ModelFacts, cache_rules, cost_usd
from foveal.values.entry import Usage
from foveal.values.prompt import Prompt
from foveal.values.shown import Item
from foveal.values.trace import PROMPT_TOKENS

_TOKENS = attrgetter("size.tokens")


class Bill(msgspec.Struct, frozen=True):
    """One call's input. `cost_usd` is None where a price is unknown."""

    tokens: int
    cached: int
    cost_usd: float | None


class RecordedBill(msgspec.Struct, frozen=True):
    """One call as it was billed, by the provider's own counts. `cost_usd` includes the reply; None where a price is unknown."""

    tokens: int
    cached: int
    """Tokens of the input that were read from the cache."""
    written: int
    """Tokens of the input that entered the cache."""
    output_tokens: int
    cost_usd: float | None


def recorded_bill(usage: Usage, facts: ModelFacts) -> RecordedBill:
    """Return the bill for a recorded usage, at the prices of the model that it names."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = max(0, usage.input_tokens - read - written)
    cost = cost_usd(facts, read, written, usage.output_tokens, fresh=fresh)
    return RecordedBill(usage.input_tokens, read, written, usage.output_tokens, cost)


def bill(facts: ModelFacts, tokens: int, shared: int) -> Bill:
    """Return the bill for the input of one call, `shared` tokens of which the call before it had sent as well."""
    rules = cache_rules(facts.provider, facts.id)
    usable = shared - shared % rules.block_tokens
    cached = usable if usable >= max(facts.cache_minimum, rules.minimum_tokens) else 0
    return Bill(tokens, cached, cost_usd(facts, cached, tokens - cached, 0))


def bill_costs(facts: ModelFacts, sizes: Iterable[tuple[int, int]]) -> Iterator[float | None]:
    """Yield the cost of the bill for each pair of tokens and shared tokens. The rules of the model are looked up once."""
    read, write = facts.price_cache_read, facts.price_cache_write
    if read is None or write is None or facts.long_prices is not None:
        yield from (bill(facts, tokens, shared).cost_usd for tokens, shared in sizes)
        return
    rules = cache_rules(facts.provider, facts.id)
    block, least = rules.block_tokens, max(facts.cache_minimum, rules.minimum_tokens)
    for tokens, shared in sizes:
        usable = shared - shared % block
        cached = usable if usable >= least else 0
        yield cached * read / 1e6 + (tokens - cached) * write / 1e6


def shared_tokens(before: Prompt | None, now: Prompt) -> int:
    """Return how many leading tokens two prompts have in common, atom by atom."""
    if before is None or before.setup.tools != now.setup.tools or before.setup.model != now.setup.model:
        return 0
    same = now.atoms[: equal_length(before.atoms, now.atoms)]
    return now.setup.tools_tokens + sum(map(_TOKENS, same))


def equal_length(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    """Return how many leading members are equal. Slices are compared whole: two prompts share most atoms, as the same objects."""
    most = min(len(old), len(new))
    if old[:most] == new[:most]:
        return most
    low, high = 0, most - 1
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def new_items(prompt: Prompt, known: Container[str]) -> Iterator[Item]:
    """Yield the items that are not known from an earlier prompt. They are at the end."""
    for atom in reversed(prompt.atoms):
        new = [item for item in atom.items if item.id not in known]
        if not new and atom.items:
            return
        yield from new


class WholeHistory:
    """Bills the same session with its whole history sent for every call, cached as the provider caches it."""

    def __init__(self) -> None:
        self._before = self._unsendable = self._framing = self._tools_tokens = 0
        self._known: set[str] = set()
        self._has_folded = False

    def __copy__(self) -> "WholeHistory":
        other = object.__new__(WholeHistory)
        other.__dict__ = {**self.__dict__, "_known": set(self._known)}
        return other

    def bill(
        self,
        facts: ModelFacts,
        raw_tokens: int,
        prompt: Prompt | None,
        *,
        tools_tokens: int = 0,
        is_cold: bool = False,
    ) -> Bill:
        """Return the bill of the next call, when all messages take `raw_tokens`. `prompt` is Foveal's; None if refused."""
        # The recall tools, which are offered later, are no part of a whole history.
        self._tools_tokens = self._tools_tokens or tools_tokens
        sent = 0
        if prompt:
            sent = prompt.tokens
            self._has_folded |= prompt.fold is not None
            new = list(new_items(prompt, self._known))
            self._known.update(item.id for item in new)
            self._unsendable += sum(map(_unsendable, new))
        tokens = raw_tokens - self._unsendable + self._tools_tokens + PROMPT_TOKENS
        if not self._has_folded:
            # Words between replies, and results that never came: a whole history needs them too.
            self._framing = max(self._framing, sent - tokens)
        tokens += self._framing
        raw = bill(facts, tokens, 0 if is_cold else self._before)
        self._before = tokens - PROMPT_TOKENS
        return raw


def _unsendable(item: Item) -> int:
    """Return the tokens that this dialect cannot send, such as another model's thinking: the whole history has them not."""
    return sum(shown.raw_tokens for shown in item.shown if shown.level == "hidden" and shown.policy == "dialect")
