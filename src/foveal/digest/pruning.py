"""Which lines and names are kept for later folds: a few times more than are ever shown, and never more than so many bytes."""

from foveal.digest.features import NOTHING_SHOWN, Facts
from foveal.digest.scoring import Scoring, scored
from foveal.digest.state import Digest, Line

LINES_CHARS = 70_000
"""Of kept lines and of where they come from: about twice what is shown of them, so that later folds can choose again."""
NAMES_CHARS = 50_000
ONCE_CHARS = 30_000

_FRAME_CHARS = 24
"""Numbers and brackets around a line or a name when it is written down."""
_BLOCK_CHARS = 50


def pruned(digest: Digest, now: int, score: Scoring) -> Digest:
    facts = Facts(digest, NOTHING_SHOWN, now)
    worth = scored(digest, facts, score)
    lines = _lines(digest, facts, [
        (of_line + sum(worth.names[name] / len(facts.holders[name]) for name in said)) / (len(line.text) + _FRAME_CHARS)
        for line, said, of_line in zip(digest.lines, facts.said, worth.lines, strict=True)
    ])
    blocks = sorted({line.block for line in lines})
    places = {block: place for place, block in enumerate(blocks)}
    kept = [Line(x.text, places[x.block], x.at, x.number, x.count, x.uses, x.used) for x in lines]
    said = {name for line in kept for name in facts.names_of[line.text]}
    names, left = [], NAMES_CHARS
    for name in sorted(digest.names, key=lambda name: -worth.names[name.text]):
        left -= len(name.text) + _FRAME_CHARS
        if left < 0:
            break
        names.append(name)
    once, left = [], ONCE_CHARS
    for name, number in sorted(digest.once, key=lambda one: -worth.names[one[0]]):
        if name in said: continue
        left -= len(name) + 8
        if left < 0: break
        once.append((name, number))
    return Digest(tuple(digest.blocks[block] for block in blocks), tuple(kept), tuple(names), tuple(once), digest.files)


def _lines(digest: Digest, facts: Facts, worth: list[float]) -> list[Line]:
    kept, opened, left = list[int](), set[int](), LINES_CHARS
    for i in sorted(range(len(worth)), key=lambda i: -worth[i]):
        line = digest.lines[i]
        left -= len(line.text) + _FRAME_CHARS
        if line.block not in opened:
            block = digest.blocks[line.block]
            left -= len(block.title) + len(block.path) + _BLOCK_CHARS
            opened.add(line.block)
        if left < 0:
            break
        kept.append(i)
    return [digest.lines[i] for i in sorted(kept)]
