"""The offline limit: folds like the default policy, but its summary holds the lines that will be used.

It reads the future of the recording, which no real policy can. Its grounding shows how much is left to win by choosing lines
better.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heapreplace

import msgspec

from foveal.analysis.measurement.case import Case, Chat, Sent, content_text, count, text_of
from foveal.analysis.measurement.grounding import Need, clues
from foveal.session.policy import DEFAULT_STAGES, Summarise
from foveal.text.names import PIECE_CHARS, line_pieces
from foveal.values.budget import sent_limit
from foveal_bench.baselines import Sizes, first_cut, head_of

_STAGE = next((stage for stage in DEFAULT_STAGES if isinstance(stage, Summarise)), Summarise())
_HUGE, _HUGE_TO = 0.25, 0.2
"""Shares of the budget: a result larger than the first is cut to the second, even the newest, as in the default policy."""
_LATER = 0.05
"""The worth of a use after the next fold, at which the line can be chosen again."""
_CHARS_PER_TOKEN = 3.5
_MOST_PIECES = 1_000


class _Line(msgspec.Struct, frozen=True, eq=False):
    message: int
    text: str
    tokens: int
    clues: frozenset[str]


def oracle(case: Case, budget: int) -> Iterator[Sent]:
    """Yield prompts that are folded down to the target of the default policy, in one batch, with a digest of covered lines."""
    seer, sizes, head = _Seer(case), Sizes(case), head_of(case.messages)
    goal = sent_limit(budget).for_messages(1.0, 0, 0).aim.tokens - int(budget * _STAGE.share)
    history, start, digest = list(case.messages), head, tuple[Chat, ...]()
    for number, place in enumerate(case.calls):
        if sizes.all((*history[:head], *digest, *history[start:place])) > budget:
            history[start:place] = [_cut_huge(message, sizes, budget) for message in history[start:place]]
            start = max(start, first_cut(history[:place], head, sizes, goal))
            digest = seer.digest((head, start), number, (*history[:head], *history[start:place]), budget)
        shown = (*history[:head], *digest, *history[start:place])
        yield Sent(shown, case.tools, lambda upto=start: map(text_of, case.messages[head:upto]))


def _cut_huge(message: Chat, sizes: Sizes, budget: int) -> Chat:
    if message["role"] != "tool" or sizes.of(message) <= budget * _HUGE:
        return message
    text, chars = content_text(message), int(budget * _HUGE_TO * _CHARS_PER_TOKEN / 2)
    return {**message, "content": f"{text[:chars]}\n[…]\n{text[-chars:]}"}


class _Seer:
    """Knows which lines of the history hold clues that are used later."""

    def __init__(self, case: Case) -> None:
        self._case = case
        wanted = {clue for need in case.needs for clue in _used(need)}
        self._lines = [list(_lines(i, message, wanted)) for i, message in enumerate(case.messages)]

    def digest(self, span: tuple[int, int], number: int, beside: Sequence[Chat], budget: int) -> tuple[Chat, ...]:
        room = int(budget * _STAGE.share)
        worth = self._worth(number, "\n".join(map(text_of, beside)), budget)
        lines = [line for of_message in self._lines[slice(*span)] for line in of_message if line.clues & worth.keys()]
        chosen = list[_Line]()
        for best in _best_first(lines, worth):
            if best.tokens <= room:
                chosen.append(best)
                room -= best.tokens
                for clue in best.clues:
                    worth.pop(clue, None)
        if not chosen:
            return ()
        chosen.sort(key=lambda line: line.message)
        return (
            {"role": "user", "content": "\n".join(("[Lines of what was covered]", *(line.text for line in chosen)))},
        )

    def _worth(self, number: int, shown: str, budget: int) -> dict[str, float]:
        """Return the worth of all clues that will be used and are not shown; those before the next fold count most."""
        case, worth = self._case, defaultdict[str, float](float)
        grown = budget - sent_limit(budget).for_messages(1.0, 0, 0).aim.tokens
        for later in range(number, len(case.calls)):
            is_soon = case.raw[later] - case.raw[number] <= grown
            for clue in _used(case.needs[later]):
                worth[clue] += 1.0 if is_soon else _LATER
        return {clue: much for clue, much in worth.items() if clue not in shown}


def _best_first(lines: Sequence[_Line], worth: dict[str, float]) -> Iterator[_Line]:
    """Yield lines by their worth a token, while the caller takes clues out of `worth`.

    The worth of a line only falls, so that the top line is weighed again and put back if its worth has fallen.
    """

    def weighed(at: int) -> tuple[float, int]:
        return -sum(worth.get(clue, 0.0) for clue in lines[at].clues) / lines[at].tokens, at

    heap = [weighed(at) for at in range(len(lines))]
    heapify(heap)
    while heap and heap[0][0] < 0:
        now = weighed(heap[0][1])
        if now == heap[0]:
            heappop(heap)
            yield lines[now[1]]
        else:
            heapreplace(heap, now)


def _used(need: Need) -> Iterator[str]:
    yield from (clue for clue, _ in need.far)
    yield from need.near


def _lines(at: int, message: Chat, wanted: set[str]) -> Iterator[_Line]:
    for raw in text_of(message).splitlines():
        line = raw.strip()
        whole = [line] if len(line) > PIECE_CHARS and line in wanted else []
        for text in (*whole, *line_pieces(line, _MOST_PIECES)):
            if found := clues(text) & wanted:
                yield _Line(at, text, count(text) + 1, frozenset(found))
