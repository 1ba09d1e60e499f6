"""What people do without an engine, on chat messages: send everything, keep a window, blank old results."""

from collections.abc import Iterator, Sequence
from functools import partial

from foveal.bench.case import PROMPT_TOKENS, Case, Chat, Runner, Sent, tokens_of, tools_tokens

CLEARED = "[cleared]"
_TARGET = 0.5
"""Of the budget: how deep a batch goes."""
_CUT_CHARS = 1_000


def full(case: Case, budget: int) -> Iterator[Sent]:
    """Everything, whatever the budget."""
    for place in case.calls:
        yield Sent(case.messages[:place], case.tools)


class Sizes:
    """Tokens of messages, each counted once."""

    def __init__(self, case: Case) -> None:
        self._known: dict[int, tuple[Chat, int]] = {}
        self.fixed = tools_tokens(case.tools) + PROMPT_TOKENS

    def of(self, message: Chat) -> int:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, tokens_of(message)
        return known[1]

    def all(self, messages: Sequence[Chat]) -> int:
        return self.fixed + sum(map(self.of, messages))


def head_of(messages: Sequence[Chat]) -> int:
    """How many messages stand up to the first request, which stays: without its task an agent is lost."""
    for i, message in enumerate(messages):
        if message["role"] == "user":
            return i + 1
    return 0


def turns(messages: Sequence[Chat], start: int) -> list[int]:
    """Where it may be cut from `start` on: never between a call and its results."""
    return [i for i in range(start, len(messages)) if messages[i]["role"] != "tool"]


def window(case: Case, budget: int, *, target: float) -> Iterator[Sent]:
    """The newest turns that fit; a batch drops down to `target` of the budget, 1.0 drops as little as it can at each call."""
    sizes, head, start = Sizes(case), head_of(case.messages), 0
    for place in case.calls:
        shown = _windowed(case.messages[:place], head, max(start, head), sizes, budget)
        if shown is None:
            start = _start(case.messages[:place], head, sizes, budget * target)
            shown = (*case.messages[:head], *case.messages[max(start, head) : place])
        yield Sent(shown, case.tools)


def _windowed(
    messages: Sequence[Chat], head: int, start: int, sizes: Sizes, budget: int
) -> tuple[Chat, ...] | None:
    shown = (*messages[:head], *messages[start:])
    return shown if sizes.all(shown) <= budget else None


def _start(messages: Sequence[Chat], head: int, sizes: Sizes, goal: float) -> int:
    """The first cut after which what is left is within the goal; the last one, if none is."""
    left = sizes.all(messages)
    cuts, at = turns(messages, head), head
    for cut in cuts:
        left -= sum(map(sizes.of, messages[at:cut]))
        at = cut
        if left <= goal:
            return cut
    return cuts[-1] if cuts else head


def mask(case: Case, budget: int, *, keep: int, batched: bool) -> Iterator[Sent]:
    """Results before the newest `keep` are blanked, at each call or when it is over; then the oldest turns go as well."""
    sizes, head, start, upto = Sizes(case), head_of(case.messages), 0, 0
    blank = {i: {**message, "content": CLEARED} for i, message in enumerate(case.messages) if message["role"] == "tool"}
    for place in case.calls:
        results = [i for i in blank if i < place]
        newest = results[-keep] if len(results) >= keep else 0
        upto = upto if batched else newest
        shown = _masked(case.messages[:place], blank, upto)
        if batched and sizes.all((*shown[:head], *shown[max(start, head) :])) > budget:
            upto = newest
            shown = _masked(case.messages[:place], blank, upto)
        kept = _windowed(shown, head, max(start, head), sizes, budget)
        if kept is None:
            start = _start(shown, head, sizes, budget * _TARGET)
            kept = (*shown[:head], *shown[max(start, head) :])
        yield Sent(kept, case.tools)


def _masked(messages: Sequence[Chat], blank: dict[int, Chat], upto: int) -> tuple[Chat, ...]:
    return tuple(blank[i] if i < upto and i in blank else message for i, message in enumerate(messages))


def cut_on_arrival(case: Case, budget: int) -> Iterator[Sent]:
    """Every result cut to a thousand characters when it comes, then a window in batches."""
    sizes, head, start = Sizes(case), head_of(case.messages), 0
    history = [_cut(message) for message in case.messages]
    for place in case.calls:
        shown = _windowed(history[:place], head, max(start, head), sizes, budget)
        if shown is None:
            start = _start(history[:place], head, sizes, budget * _TARGET)
            shown = (*history[:head], *history[max(start, head) : place])
        yield Sent(shown, case.tools)


def _cut(message: Chat) -> Chat:
    text = message.get("content")
    if message["role"] != "tool" or not isinstance(text, str) or len(text) <= _CUT_CHARS:
        return message
    return {**message, "content": f"{text[: _CUT_CHARS // 2]}\n[…]\n{text[-_CUT_CHARS // 2 :]}"}


BASELINES: dict[str, Runner] = {
    "full history": full,
    "window, each turn": partial(window, target=1.0),
    "window, batched to 0.5": partial(window, target=_TARGET),
    "mask last 10, each turn": partial(mask, keep=10, batched=False),
    "mask last 10, batched": partial(mask, keep=10, batched=True),
    "results cut to 1,000 characters, window": cut_on_arrival,
}
