"""What a child is given of its parent's log: some references, and what stands behind them.

Nothing of one session can be read from another, so what is given is put into the child's own log: the original as an artifact,
shown by one line, under an id that says which reference of the parent's it answers. From then on it is the child's: its recall
answers it, its search finds it, it is there when the child is opened again, and no other reference of the parent's means
anything to the child.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from foveal.recall import GIVEN, blocks, describe, given_id
from foveal.stores.large_results import keep_stream
from foveal.stores.port import Store
from foveal.text.guard import safe_name
from foveal.values.codec import sendable
from foveal.values.entry import Message
from foveal.values.errors import BadInput

MOST_GIVEN = 200
"""Each is a line in every prompt of the child. More of them are a history, which a summary tells better."""


_WHAT_CHARS = 160
_GIVEN, _UNDER = "given: ", " tokens under ref "


class Handover(NamedTuple):
    """The id of what is given, and the message by which the child is shown it."""

    id: str
    message: Message


def gifts(store: Store, session: str, refs: Iterable[str], *, count: Callable[[str], int]) -> list[Handover]:
    """What stands behind these references of a session, ready to be given. `NotFound` for one that is none of its own."""
    if isinstance(refs, str):  # each of its letters may well be the beginning of an id
        raise BadInput(f"refs is the text {refs!r:.80}; give a list of references")
    named = {given_id(ref): ref for ref in (ref.strip().removeprefix("ref ") for ref in refs)}
    if len(named) > MOST_GIVEN:
        raise BadInput(
            f"{len(named):,} references cannot be given, {MOST_GIVEN} are the most; give a range (FIRST..LAST)"
        )
    told = {ref: describe(store, session, ref) for ref in named.values()}  # all are looked up before any is copied
    return [Handover(given, _shown(store, session, ref, what=told[ref], count=count)) for given, ref in named.items()]


def _shown(store: Store, session: str, ref: str, *, what: str, count: Callable[[str], int]) -> Message:
    """The message that stands for an original. `what` was made for one line by whoever looked it up."""
    tokens = 0

    def chunks() -> Iterator[bytes]:
        nonlocal tokens
        for block in blocks(store, session, ref):
            tokens += count(sendable(block))
            yield block.encode("utf-8", "surrogatepass")

    stored = keep_stream(store, chunks())
    if what.startswith(_GIVEN):  # by a grandparent: the line of the parent's line would tell its tokens twice
        what = what.removeprefix(_GIVEN).partition(_UNDER)[0].rpartition(": ")[0]
    # Not as our stand-ins put it: it stands in the user's place, where a line of theirs is broken.
    line = f"[{_GIVEN}{safe_name(what, _WHAT_CHARS)}: {tokens:,}{_UNDER}{given_id(ref).removeprefix(GIVEN)}]"
    return Message("user", (msgspec.structs.replace(stored, shown=line),))
