"""The best lines per token, until the allowance is used up."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from foveal.digest.features import Facts, Shown
from foveal.digest.names import names
from foveal.digest.rendering import header, render
from foveal.digest.scoring import Score, Scoring, scored
from foveal.digest.state import Digest

CHARS_PER_TOKEN = 3.5
"""Of code in the usual encodings; what is chosen is measured by the caller's own counter in the end."""

_LINE_TOKENS = 2.0
"""The line break, and now and then the number of a line or a mark that some are left out."""

_INDEX_SHARE = 0.35
"""Of the allowance, for names without their lines."""

_NAME_WORTH = 0.7
"""Of a name in the index, compared with the same name in its line."""


def choose(
    digest: Digest,
    *,
    tokens: int,
    count: Callable[[str], int],
    now: int,
    shown: str | Iterable[str] = (),
    score: Scoring = "learned",
) -> str:
    """The digest as text, of at most so many tokens. `shown` is what the prompt holds beside it: it is not shown twice."""
    texts = (shown,) if isinstance(shown, str) else shown
    facts = Facts(digest, Shown(texts), now)
    choice = _Choice(digest, facts, scored(digest, facts, score))
    allowance = float(tokens)
    for _ in range(4):
        lines, index = choice.best(allowance)
        text = render(digest, lines, index)
        used = count(text) if text else 0
        if used <= tokens:
            return text
        allowance *= tokens / used * 0.97
    return ""


class _Choice:
    """Lines and names compete for room by what they add per token; a name that is shown already adds nothing."""

    def __init__(self, digest: Digest, facts: Facts, score: Score) -> None:
        self.digest, self.facts, self.score = digest, facts, score
        self.costs = [len(line.text.strip()) / CHARS_PER_TOKEN + _LINE_TOKENS for line in digest.lines]
        titles = [header(block) for block in digest.blocks]
        self.title_costs = [len(title) / CHARS_PER_TOKEN + 2 for title in titles]
        self.title_names = [names(title) for title in titles]
        self.of_block: dict[int, list[int]] = {}
        for i, line in enumerate(digest.lines):
            self.of_block.setdefault(line.block, []).append(i)

    def best(self, allowance: float) -> tuple[list[int], list[str]]:
        """The lines and the names of the index for so many tokens."""
        left, for_index = allowance, allowance * _INDEX_SHARE
        opened, taken, index = set[int](), list[int](), list[str]()
        had = set[str]()
        heap: list[tuple[float, int, str]] = []

        def gain(i: int) -> tuple[float, float]:
            line = self.digest.lines[i]
            worth = self.score.lines[i] + sum(self.score.names.get(name, 0.0) for name in self.facts.said[i] if name not in had)
            cost = self.costs[i]
            if line.block not in opened:
                cost += self.title_costs[line.block]
                worth += sum(self.score.names.get(name, 0.0) for name in self.title_names[line.block] if name not in had)
            return worth / cost, cost

        for i in range(len(self.digest.lines)):
            heap.append((-gain(i)[0], i, ""))
        for name, worth in self.score.names.items():
            if worth > 0:
                heap.append((-worth * _NAME_WORTH / _name_cost(name), -1, name))
        heapify(heap)
        done = set[int]()
        while heap and left > 5:
            rate, i, name = heappop(heap)
            if i < 0:
                cost = _name_cost(name)
                if name not in had and cost <= min(left, for_index):
                    had.add(name)
                    index.append(name)
                    left, for_index = left - cost, for_index - cost
                continue
            if i in done:
                continue
            now, cost = gain(i)
            if now < -rate - 1e-9:
                heappush(heap, (-now, i, ""))
                continue
            done.add(i)
            if cost > left or now <= 0:
                continue
            left -= cost
            taken.append(i)
            had.update(self.facts.said[i])
            block = self.digest.lines[i].block
            if block not in opened:
                opened.add(block)
                had.update(self.title_names[block])
                for other in self.of_block[block]:
                    if other not in done:
                        heappush(heap, (-gain(other)[0], other, ""))
        return sorted(taken), index


def _name_cost(name: str) -> float:
    return len(name) / CHARS_PER_TOKEN + 1
