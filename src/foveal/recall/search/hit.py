"""What a search gives."""

import msgspec


class Hit(msgspec.Struct, frozen=True):
    """One part of the log that answers a question. `Fetch(hit.ref, offset=hit.line - 1)` reads on from there."""

    ref: str
    kind: str
    """The role of who said it, or `thinking`, or the name of the tool that was called or answered."""
    seq: int
    """The place of its entry in the log."""
    line: int
    """The number of the snippet's first line in the part, from 1."""
    score: float
    """Higher is better; it compares hits of one search and nothing else."""
    snippet: str
    """The line that answers best, verbatim, and the next one if they are short."""
    characters: int
    """Length of the whole part."""
