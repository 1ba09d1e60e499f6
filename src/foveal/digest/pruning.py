"""Which lines and names are kept for later folds: a few times more than are ever shown, and never more than so many bytes."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from foveal.digest.features import NOTHING_SHOWN, Facts
from foveal.digest.scoring import Scoring, of_lines
from foveal.digest.state import Digest, Name

LINES_CHARS = 70_000
"""Of kept lines and of where they come from: about twice what is shown of them, so that later folds can choose again."""
NAMES_CHARS = 45_000
ONCE_CHARS = 30_000

_FRAME_CHARS = 24
"""Numbers and brackets around a line or a name when it is written down."""
_BLOCK_CHARS = 50

T = TypeVar("T")


def pruned(digest: Digest, now: int, *, score: Scoring, room: float) -> Digest:
    """The best of it. `room` times as much as usual is kept."""
    facts = Facts(digest, NOTHING_SHOWN, now)
    worth = _worth(digest, facts, of_lines(digest, facts, score))
    kept = _lines(digest, worth, LINES_CHARS * room)
    blocks = sorted({digest.lines[i].block for i in kept})
    places = {block: place for place, block in enumerate(blocks)}
    said = {name for i in kept for name in facts.said[i]}
    names = sorted(digest.names, key=lambda name: -name_guess(name, now))
    once = sorted((one for one in digest.once if one[0] not in said), key=lambda one: -one[1])
    return Digest(
        tuple(digest.blocks[block] for block in blocks),
        tuple(replace(digest.lines[i], block=places[digest.lines[i].block]) for i in kept),
        tuple(_within(names, NAMES_CHARS * room, lambda name: len(name.text) + _FRAME_CHARS)),
        tuple(_within(once, ONCE_CHARS * room, lambda one: len(one[0]) + 8)),
        digest.files,
    )


def name_guess(name: Name, now: int) -> float:
    """About how likely a name is to be needed again, at a tenth of the price of the score."""
    return (0.2 + min(name.uses, 5) + 0.1 * min(name.count, 5)) / (20 + now - max(name.last, name.used))


def _worth(digest: Digest, facts: Facts, likely: list[float]) -> list[float]:
    """What each line would add for each character. What several lines name is shared among them."""
    shares = dict[str, float]()
    for name, holders in facts.holders.items():
        stats = facts.names.get(name)
        met = digest.blocks[digest.lines[holders[-1]].block].number
        shares[name] = name_guess(stats or Name(name, met, met, 1), facts.now) / len(holders)
    return [
        (own + sum(shares[name] for name in said)) / (len(line.text) + _FRAME_CHARS)
        for line, said, own in zip(digest.lines, facts.said, likely, strict=True)
    ]


def _lines(digest: Digest, worth: list[float], chars: float) -> list[int]:
    kept, opened = list[int](), set[int]()
    for i in sorted(range(len(worth)), key=lambda i: -worth[i]):
        line = digest.lines[i]
        chars -= len(line.text) + _FRAME_CHARS
        if line.block not in opened:
            block = digest.blocks[line.block]
            chars -= len(block.title) + len(block.path) + _BLOCK_CHARS
            opened.add(line.block)
        if chars < 0:
            break
        kept.append(i)
    return sorted(kept)


def _within(ranked: Iterable[T], chars: float, size: Callable[[T], int]) -> Iterable[T]:
    for one in ranked:
        chars -= size(one)
        if chars < 0:
            return
        yield one
