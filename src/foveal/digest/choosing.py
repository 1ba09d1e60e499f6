"""The best lines per token, until the allowance is used up."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from foveal.digest.features import Facts, Shown
from foveal.digest.names import names
from foveal.digest.rendering import header, is_in_title, quoted, render
from foveal.digest.scoring import Score, Scoring, scored
from foveal.digest.state import Digest

CHARS_PER_TOKEN = 3.5
"""Of code in the usual encodings; what is chosen is measured by the caller's own counter in the end."""

_LINE_TOKENS = 2.0
"""The line break, and now and then the number of a line or a mark that some are left out."""

_INDEX_SHARE = 0.3
"""Of the allowance, for names without their lines, at most; in replays at 32k they take a sixth. Without any, two in a hundred
of what was needed from far back are not shown."""

_INDEX_WORTH = 0.85
"""Of a name in the index, compared with the same name in its line."""

_LEAST_WORTH = 0.002
"""What is less likely to be needed than this is noise, even if there is room."""

_TRIES = 4


def choose(
    digest: Digest,
    *,
    tokens: int,
    count: Callable[[str], int],
    now: int,
    shown: str | Iterable[str] = (),
    score: Scoring = "learned",
) -> str:
    """The digest as text, of at most so many tokens; `now` is the newest message that it covers.

    `shown` is what the prompt holds beside it: it is not shown twice.
    """
    facts = Facts(digest, Shown((shown,) if isinstance(shown, str) else shown), now)
    worth = scored(digest, facts, score)
    allowance = float(tokens)
    for _ in range(_TRIES):
        choice = _Choice(digest, facts, worth, allowance)
        choice.make()
        text = render(digest, sorted(choice.taken), list(choice.index))
        used = count(text) if text else 0
        if used <= tokens:
            return text
        allowance *= tokens / used * 0.98
    return ""


class _Choice:
    """Lines and names compete for room by what they add per token. What is shown already, by whichever line, adds nothing."""

    def __init__(self, digest: Digest, facts: Facts, worth: Score, allowance: float) -> None:
        self.digest, self.said, self.worth, self.left = digest, facts.said, worth, allowance
        self.left_for_index = allowance * _INDEX_SHARE
        self.taken: list[int] = []
        self.index: dict[str, float] = {}
        """Names without their lines, and what each of them took."""
        self._had: set[str] = set()
        self._opened: set[int] = set()
        titles = [header(block) for block in digest.blocks]
        self._title_tokens = [_tokens(title) for title in titles]
        self._title_names = [names(title) for title in titles]
        self._tokens = [
            0.1 if is_in_title(line, digest.blocks[line.block]) else _tokens(quoted(line.text.strip()))
            for line in digest.lines
        ]
        self._of_block: dict[int, list[int]] = {}
        for i, line in enumerate(digest.lines):
            self._of_block.setdefault(line.block, []).append(i)

    def make(self) -> None:
        """Take what adds most, again and again. What it adds only falls, but where its block has been opened."""
        heap = [(-self._rate(i), i, "") for i in range(len(self.digest.lines))]
        heap += [
            (-_INDEX_WORTH * w / _name_tokens(name), -1, name)
            for name, w in self.worth.names.items()
            if w > _LEAST_WORTH
        ]
        heapify(heap)
        done = set[int]()
        while heap and self.left > 1:
            rate, i, name = heappop(heap)
            if i < 0:
                self._list(name)
            elif i not in done:
                now = self._rate(i)
                if now < -rate - 1e-9:
                    heappush(heap, (-now, i, ""))
                    continue
                done.add(i)
                for other in self._take(i):
                    if other not in done:
                        heappush(heap, (-self._rate(other), other, ""))

    def _adds(self, i: int) -> tuple[float, float]:
        """What a line adds, and how many tokens it takes. A name that leaves the index for its line gives back what it took."""
        block = self.digest.lines[i].block
        found, tokens = self.said[i], self._tokens[i]
        if block not in self._opened:
            found, tokens = [*found, *self._title_names[block]], tokens + self._title_tokens[block]
        adds, listed, of = self.worth.lines[i], 0.0, self.worth.names
        for name in found:
            if name in self.index:
                listed += of[name]
                tokens -= self.index[name]
            elif name not in self._had:
                adds += of.get(name, 0.0)
        is_noise = adds + listed <= _LEAST_WORTH
        return 0.0 if is_noise else adds + listed * (1 - _INDEX_WORTH), max(tokens, 0.1)

    def _rate(self, i: int) -> float:
        adds, tokens = self._adds(i)
        return adds / tokens

    def _list(self, name: str) -> None:
        tokens = _name_tokens(name)
        if name not in self._had and tokens <= min(self.left, self.left_for_index):
            self._had.add(name)
            self.index[name] = tokens
            self.left -= tokens
            self.left_for_index -= tokens

    def _take(self, i: int) -> list[int]:
        """Take a line; the lines that are cheaper from now on, because their header is there."""
        adds, tokens = self._adds(i)
        if tokens > self.left or adds <= 0:
            return []
        block = self.digest.lines[i].block
        is_first = block not in self._opened
        self.taken.append(i)
        self._opened.add(block)
        self.left -= tokens
        for name in (*self.said[i], *self._title_names[block]):
            self._had.add(name)
            self.left_for_index += self.index.pop(name, 0.0)
        return self._of_block[block] if is_first else []


def _tokens(text: str) -> float:
    return len(text) / CHARS_PER_TOKEN + _LINE_TOKENS


def _name_tokens(name: str) -> float:
    return len(name) / CHARS_PER_TOKEN + 1
