"""Selection of the best lines per token, until the allowance is used up."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain

from foveal.summary.relevance.features import Features, ShownElsewhere
from foveal.summary.relevance.render import block_header, is_in_title, quote_line, render
from foveal.summary.relevance.score import DEFAULT_SELECTION, LineSelection, Score, score_all
from foveal.summary.relevance.state import RelevanceState
from foveal.text.names import line_names
from foveal.text.shorten.allowance import CountTokens

CHARS_PER_TOKEN = 3.5
"""Characters per token of code in the usual encodings. The caller's own counter measures the final text."""

_LINE_TOKENS = 2.0
"""Tokens of the line break, and now and then of a line's number or a mark for left-out lines."""

_INDEX_SHARE = 0.3
"""Largest share of the allowance for names without their lines; in replays at 32k they take a sixth. Without any, two in a
hundred of the needed texts from far back are not shown."""

_INDEX_WORTH = 0.85
"""Worth of a name in the index, compared with the same name in its line."""

_LEAST_WORTH = 0.002
"""Chances below this are noise, and are not worth a token."""

_LEAST_TOKENS = 0.1
"""Tokens of a line that its header shows already."""

_TRIES = 4


def choose(
    state: RelevanceState,
    *,
    tokens: int,
    count: CountTokens,
    now: int,
    shown: str | Iterable[str] = (),
    selection: LineSelection = DEFAULT_SELECTION,
) -> str:
    """Return the best lines as text of at most `tokens`; `now` is the newest message that the summary covers.

    `shown` are the texts that the prompt holds beside the summary: they are not repeated.
    """
    features = Features(state, ShownElsewhere((shown,) if isinstance(shown, str) else shown), now)
    worth = score_all(state, features, selection)
    allowance = float(tokens)
    for _ in range(_TRIES):
        choice = _Choice(state, features, worth, allowance)
        choice.make(selection.least)
        text = render(state, sorted(choice.taken), list(choice.index))
        used = count(text) if text else 0
        if used <= tokens:
            return text
        allowance *= tokens / used * 0.98
    return ""


class _Choice:
    """A competition of lines and names for tokens, by their gain per token. A name that is shown already adds nothing."""

    def __init__(self, state: RelevanceState, features: Features, worth: Score, allowance: float) -> None:
        self.left, self.left_for_index = allowance, allowance * _INDEX_SHARE
        self.taken: list[int] = []
        self.index: dict[str, float] = {}
        """Names without their lines, with the tokens of each."""
        titles = [block_header(block) for block in state.blocks]
        first = [(line_names(title), _tokens(title)) for title in titles]
        self._adding = dict.fromkeys(chain(features.holders, *(said for said, _ in first)), 0.0) | worth.names
        """Remaining gain of each name: none if it is shown beside the summary, or in a line that is taken."""
        self._of_line = worth.lines
        self._block_of = [line.block for line in state.lines]
        self._alone = list(zip(features.said, _sizes(state), strict=True))
        self._whole = [
            ((*said, *first[block][0]), tokens + first[block][1])
            for (said, tokens), block in zip(self._alone, self._block_of, strict=True)
        ]
        """Names and tokens of each line, including the header of its block until that is shown."""
        self._unopened: dict[int, list[int]] = {}
        for i, block in enumerate(self._block_of):
            self._unopened.setdefault(block, []).append(i)

    def make(self, least: float) -> None:
        """Take the line or name with the largest gain per token, again and again, while the gain is at least `least`.

        The gain of a line only falls, except when the header of its block gets shown.
        """
        heap = [(-rate, i) for i in range(len(self._whole)) if (rate := self._adds(i)[0]) >= least]
        heapify(heap)
        worth = {name: w for name, w in self._adding.items() if w > _LEAST_WORTH}
        rates = {name: -rate for name, w in worth.items() if (rate := _INDEX_WORTH * w / _name_tokens(name)) >= least}
        # The best last. Many rates are the same; two sorts, one after the other, are faster than one that compares pairs.
        listed = sorted(sorted(rates, reverse=True), key=rates.__getitem__, reverse=True)
        done = set[int]()
        while (heap or listed) and self.left > 1:
            if listed and (not heap or rates[listed[-1]] <= heap[0][0]):
                self._list(listed.pop())
                continue
            rate, i = heappop(heap)
            if i in done:
                continue
            now, tokens = self._adds(i)
            if now < -rate - 1e-9:
                if now >= least:
                    heappush(heap, (-now, i))
                continue
            done.add(i)
            if now > 0 and tokens <= self.left:
                for other in self._take(i, tokens):
                    if other not in done and (cheaper := self._adds(other)[0]) >= least:
                        heappush(heap, (-cheaper, other))

    def _adds(self, i: int) -> tuple[float, float]:
        """Return a line's gain per token, and its tokens. A name that moves from the index to its line gives back its
        tokens."""
        said, tokens = self._whole[i]
        adds, listed, index, adding = self._of_line[i], 0.0, self.index, self._adding
        for name in said:
            if name in index:
                listed += adding[name]
                tokens -= index[name]
            else:
                adds += adding[name]
        tokens = tokens if tokens > _LEAST_TOKENS else _LEAST_TOKENS
        if adds + listed <= _LEAST_WORTH:
            return 0.0, tokens
        return (adds + listed * (1 - _INDEX_WORTH)) / tokens, tokens

    def _list(self, name: str) -> None:
        tokens = _name_tokens(name)
        if self._adding[name] and tokens <= self.left and tokens <= self.left_for_index:
            self.index[name] = tokens
            self.left -= tokens
            self.left_for_index -= tokens

    def _take(self, i: int, tokens: float) -> list[int]:
        """Take a line. Return the lines that are cheaper from now on, because their header is shown."""
        self.taken.append(i)
        self.left -= tokens
        for name in self._whole[i][0]:
            self._adding[name] = 0.0
            self.left_for_index += self.index.pop(name, 0.0)
        cheaper = self._unopened.pop(self._block_of[i], [])
        for other in cheaper:
            self._whole[other] = self._alone[other]
        return cheaper


def _sizes(state: RelevanceState) -> Iterator[float]:
    """Yield the tokens of each line by itself."""
    for line in state.lines:
        is_told = is_in_title(line, state.blocks[line.block])
        yield _LEAST_TOKENS if is_told else _line_tokens(line.text)


@lru_cache(8_192)
def _line_tokens(line: str) -> float:
    """Return the tokens of a line in a summary: asked for every line at each fold, and most lines stay."""
    return _tokens(quote_line(line.strip()))


def _tokens(text: str) -> float:
    return len(text) / CHARS_PER_TOKEN + _LINE_TOKENS


def _name_tokens(name: str) -> float:
    return len(name) / CHARS_PER_TOKEN + 1
