"""Blocks of text beside the conversation, recorded by marks that hold only the changes.

Instructions and documents stay for hundreds of calls while a clock beside them changes with each. So a mark holds the new
blocks, and for the others their place in the mark before it on the branch:

    before   rules  docs  reminders            mark   new: reminders'     again: 2 blocks at 0, from 0
    now      rules  docs  reminders'

The view keeps the blocks themselves, so that the next mark, a snapshot and a past prompt need no search in the log.
"""

from itertools import islice
from operator import is_

from foveal.values.entry import Again, Block, PromptContext

LOST = Block(
    "lost", "fence", "user", "tail", "[what stood here was in an entry that the log has lost]", 24, "its entry is lost"
)
"""Shown in place of blocks whose mark was damaged. The next prompt replaces it by the current blocks."""


def context_mark(before: PromptContext | None, blocks: tuple[Block, ...]) -> PromptContext:
    """Return the mark of a prompt with these blocks; `before` itself if the blocks are the same."""
    if before is None:
        return PromptContext(blocks)
    if blocks == before.blocks:
        return before
    old, new, again = before.blocks, list[Block](), list[Again]()
    # From call to call the leading blocks are the same objects, and new ones follow them.
    start, following = 0, [*map(is_, blocks, old), False].index(False)
    count = following
    for at, block in enumerate(blocks[count:], count):
        place = following if block in old[following : following + 1] else old.index(block) if block in old else None
        if count and place != following:
            again.append(Again(start, following - count, count))
            count = 0
        if place is None:
            new.append(block)
            continue
        start, count, following = (start if count else at), count + 1, place + 1
    if count:
        again.append(Again(start, following - count, count))
    return PromptContext(tuple(new), tuple(again), before.of if again else "")


def context_after(before: PromptContext | None, mark: PromptContext, entry: str) -> PromptContext | None:
    """Return the blocks beside the conversation after this mark, which is the body of `entry`."""
    blocks = list[Block]()
    new, held = iter(mark.blocks), before.blocks if before and before.of == mark.of else ()
    for run in mark.again:
        blocks += islice(new, max(0, run.at - len(blocks)))
        blocks += held[max(0, run.place) : max(0, run.place + run.count)] or (LOST,)
    blocks += new
    return PromptContext(tuple(blocks), of=entry) if blocks else None
