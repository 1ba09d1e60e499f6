"""Hand references of a session over to a child session.

Nothing of one session can be read from another, so the originals are copied into the child's own log: each as an artifact, shown
by one line, under an id that names the parent's reference. From then on they are the child's: its recall answers them, its search
finds them, they are there when the child is opened again, and no other reference of the parent means anything to the child.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from foveal import recall
from foveal.session.journal import Journal, NewBody
from foveal.stores import rows as log
from foveal.stores.large_results import keep_stream, read_artifacts
from foveal.stores.port import Store
from foveal.text import guard
from foveal.text.redaction import Redactor
from foveal.text.stand_in import part_text
from foveal.values.codec import sendable
from foveal.values.entry import ATTACHED, Body, Entry, Fence, Message, Pin, ToolCall, ToolResult, system, user
from foveal.values.errors import BadInput

MOST_GIVEN = 200
"""Each is a line in every prompt of the child. More of them are a history, which a summary tells better."""


_WHAT_CHARS = 160
_GIVEN, _UNDER = "given: ", " tokens under ref "


class Handover(NamedTuple):
    """An original on its way to a child: its entry id there, and the message that shows it."""

    id: str
    message: Message


def hand_over(
    store: Store, session: str, refs: Iterable[str], *, count: Callable[[str], int], redact: Redactor = str
) -> list[Handover]:
    """Return the originals of these references, ready for a child, which may `redact`. Raise `NotFound` for one that the session
    does not have."""
    if isinstance(refs, str):  # each of its letters may well be the beginning of an id
        raise BadInput(f"refs is the text {refs!r:.80}; give a list of references")
    named = {recall.given_id(ref): ref for ref in (ref.strip().removeprefix("ref ") for ref in refs)}
    if len(named) > MOST_GIVEN:
        raise BadInput(
            f"{len(named):,} references cannot be given, {MOST_GIVEN} are the most; give a range (FIRST..LAST)"
        )
    # All are looked up before any is copied.
    described = {ref: redact(recall.describe(store, session, ref)) for ref in named.values()}
    return [
        Handover(given, _shown(store, session, ref, what=described[ref], count=count, redact=redact))
        for given, ref in named.items()
    ]


def _shown(
    store: Store, session: str, ref: str, *, what: str, count: Callable[[str], int], redact: Redactor
) -> Message:
    """Return the message that shows an original by one line. `what` is its description, made for one line."""
    tokens = 0

    def chunks() -> Iterator[bytes]:
        nonlocal tokens
        for block in map(redact, recall.blocks(store, session, ref)):
            tokens += count(sendable(block))
            yield block.encode("utf-8", "surrogatepass")

    stored = keep_stream(store, chunks())
    if what.startswith(_GIVEN):  # by a grandparent: the line of the parent's line would tell its tokens twice
        what = what.removeprefix(_GIVEN).partition(_UNDER)[0].rpartition(": ")[0]
    # Not in the form of our stand-ins: the message has the role of the user, where the guard breaks such a line.
    line = f"[{_GIVEN}{guard.safe_name(what, _WHAT_CHARS)}: {tokens:,}{_UNDER}{recall.given_id(ref).removeprefix(recall.GIVEN)}]"
    return Message("user", (msgspec.structs.replace(stored, shown=line),))


def newest_turns(parent: Journal, turns: int) -> list[Message]:
    """Return the messages of the parent's newest turns as they were recorded, from the user's request on.

    Calls that have no result yet are left out with all after them: the child is often opened to answer one of them.
    """
    if turns < 0:
        raise BadInput(f"inherit_turns is {turns}; it is the number of the parent's newest turns, at least 0")
    places = [atom.items[0].seq for atom in parent.view.atoms if atom.kind == "user" and atom.items[0].role == "user"]
    if not turns or not places:
        return []
    recorded = parent.messages_after(places[-turns:][0] - 1)
    found = [message for _, message in recorded if message.role != "system"]
    answered = {part.call for message in found for part in message.parts if isinstance(part, ToolResult)}
    waiting = (
        i
        for i, message in enumerate(found)
        if any(isinstance(part, ToolCall) and part.id not in answered for part in message.parts)
    )
    return found[: next(waiting, len(found))]


def begin_child(
    child: Journal,
    *,
    fences: list[Fence],
    given: list[Handover],
    task: str,
    system_prompt: str = "",
    inherited: Sequence[Message] = (),
) -> None:
    """Write everything that a parent gives, all of it or none.

    A child that was begun before gets the references that are new to it, and the task if it is another one.
    """
    is_new = child.view.facts.head is None
    given = [one for one in given if is_new or not child.has(one.id)]
    new_id = child.clock.new_id
    new: list[tuple[str, NewBody]] = [(one.id, log.checked_message(one.message)) for one in given]
    if is_new:
        opening = [(new_id(), body) for body in child.bodies_of(system(system_prompt))] if system_prompt else []
        copied = [(new_id(), fence) for fence in fences]
        earlier = [(new_id(), body) for message in inherited for body in child.bodies_of(_whole(child, message))]
        new = [*opening, *copied, *earlier, *new]
    said = child.bodies_of(user(task))
    if is_new or _text(said[0].body) not in _requests(child):
        new += ((new_id(), body) for body in said)
    # The line that names a reference stays over every fold.
    new += ((new_id(), Pin(one.id, "given by the parent")) for one in given)
    if new:
        ids = [entry_id for entry_id, _ in new]
        child.keep([body for _, body in new], ids, authors={one.id: ATTACHED for one in given})


def _requests(child: Journal) -> list[str]:
    """Return the texts of the child's first and latest request."""
    facts = child.view.facts
    ids = [entry_id for entry_id in (facts.first_user, facts.last_user) if entry_id]
    rows = [row for entry_id in ids for row in child.store.find(child.name, entry_id)]
    bodies = [log.to_entry(row, child.name).body for row in rows]
    return [_text(body) for body in bodies if isinstance(body, Message)]


def _text(body: Body) -> str:
    return "".join(map(part_text, body.parts)) if isinstance(body, Message) else ""


def _whole(child: Journal, message: Message) -> Message:
    """Return a message of the parent for a child: with the texts of its artifacts, if the child looks for secrets in them."""
    if child.redact is None:
        return message
    read = read_artifacts(child.store.artifacts_for(child.name), Entry("", None, 0, "", message)).body
    return read if isinstance(read, Message) else message
