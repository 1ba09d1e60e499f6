"""Baselines: the usual ways without an engine, on chat messages. Send everything, keep a window, blank old results."""

from collections.abc import Iterator, Sequence
from functools import partial

from foveal.analysis.measurement.case import Case, Chat, Runner, Sent, tokens_of

CLEARED = "[cleared]"
_TARGET = 0.5
"""The target of a batch, as a share of the budget."""


def full(case: Case, budget: int) -> Iterator[Sent]:
    """Yield everything, regardless of the budget."""
    for place in case.calls:
        yield Sent(case.messages[:place], case.tools)


class Sizes:
    """Tokens of messages, each counted once."""

    def __init__(self, case: Case) -> None:
        self._known = {id(one): (one, tokens) for one, tokens in zip(case.messages, case.sizes, strict=True)}
        self.fixed = case.fixed

    def of(self, message: Chat) -> int:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, tokens_of(message)
        return known[1]

    def all(self, messages: Sequence[Chat]) -> int:
        return self.fixed + sum(map(self.of, messages))


def head_of(messages: Sequence[Chat]) -> int:
    """Return the number of messages up to the first request, which is kept: without its task an agent is lost."""
    for i, message in enumerate(messages):
        if message["role"] == "user":
            return i + 1
    return 0


class Window:
    """Shows the first request and the newest turns; over the budget, the oldest are dropped down to `target` of it."""

    def __init__(self, case: Case, budget: int, target: float) -> None:
        self._sizes, self._budget, self._goal = Sizes(case), budget, budget * target
        self._head = self._start = head_of(case.messages)

    def fits(self, messages: Sequence[Chat]) -> bool:
        return self._sizes.all(self._through(messages)) <= self._budget

    def show(self, messages: Sequence[Chat]) -> Sequence[Chat]:
        if not self.fits(messages):
            self._start = first_cut(messages, self._head, self._sizes, self._goal)
        return self._through(messages)

    def _through(self, messages: Sequence[Chat]) -> Sequence[Chat]:
        return (*messages[: self._head], *messages[self._start :])


def first_cut(messages: Sequence[Chat], head: int, sizes: Sizes, goal: float) -> int:
    """Return the first cut, never between a call and its results, that leaves no more than the goal; else the last cut."""
    left, at = sizes.all(messages), head
    for cut in range(head, len(messages)):
        if messages[cut]["role"] == "tool":
            continue
        left -= sum(map(sizes.of, messages[at:cut]))
        at = cut
        if left <= goal:
            break
    return at


def window(case: Case, budget: int, *, target: float, most_chars: int | None = None) -> Iterator[Sent]:
    """Yield a window, of results cut to `most_chars` on arrival; a target of 1.0 drops as little as possible, often."""
    history = [_cut(message, most_chars) for message in case.messages] if most_chars else case.messages
    shown = Window(case, budget, target)
    for place in case.calls:
        yield Sent(shown.show(history[:place]), case.tools)


def mask(case: Case, budget: int, *, keep: int, batched: bool) -> Iterator[Sent]:
    """Yield prompts with all but the newest `keep` results blanked, at each call or when over the budget; then a window."""
    blank = {i: {**message, "content": CLEARED} for i, message in enumerate(case.messages) if message["role"] == "tool"}
    shown, upto = Window(case, budget, _TARGET), 0
    for place in case.calls:
        results = [i for i in blank if i < place]
        newest = results[-keep] if len(results) >= keep else 0
        if not batched or not shown.fits(_masked(case.messages[:place], blank, upto)):
            upto = newest
        yield Sent(shown.show(_masked(case.messages[:place], blank, upto)), case.tools)


def _masked(messages: Sequence[Chat], blank: dict[int, Chat], upto: int) -> list[Chat]:
    return [blank[i] if i < upto and i in blank else message for i, message in enumerate(messages)]


def _cut(message: Chat, chars: int) -> Chat:
    text = message.get("content")
    if message["role"] != "tool" or not isinstance(text, str) or len(text) <= chars:
        return message
    return {**message, "content": f"{text[: chars // 2]}\n[…]\n{text[-chars // 2 :]}"}


BASELINES: dict[str, Runner] = {
    "full history": full,
    "window, each turn": partial(window, target=1.0),
    "window, batched to 0.5": partial(window, target=_TARGET),
    "mask last 10, each turn": partial(mask, keep=10, batched=False),
    "mask last 10, batched": partial(mask, keep=10, batched=True),
    "results cut to 1,000 characters, window": partial(window, target=_TARGET, most_chars=1_000),
}
