"""The request that would be sent for a client's now, made of the newest view and without a word in the log."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from foveal.integrations.assembly import ClientWords, shows_less
from foveal.integrations.client_request import ClientRequest
from foveal.session.client_session import ClientSession
from foveal.session.follow import Followed


def next_request(
    session: ClientSession, request: ClientRequest, told: Followed, own_tools: Sequence[Mapping[str, Any]]
) -> bytes | None:
    """Return the body that would be sent for a list which goes on from the newest message of the session, or ends before it.

    None if it would be the client's own, or if it is another list. A fold that it may make necessary is not made.
    """
    facts = session.view.facts
    atoms, newest = list(session.view.atoms), facts.said_again.get(facts.followed, facts.followed)
    told = msgspec.structs.replace(told, entries=tuple(facts.said_again.get(one, one) for one in told.entries))
    if newest not in told.entries:  # it ends before the last reply
        last = next((i for i, atom in enumerate(atoms) if told.entries[-1] in {item.id for item in atom.items}), -1)
        atoms, newest = atoms[: last + 1], told.entries[-1]
    if not any(map(shows_less, atoms)):
        return None
    known = told.entries.index(newest) + 1
    if atoms[-1].kind == "tools" and None in atoms[-1].answers:  # its results are new: the client tells them behind it
        last = atoms.pop().first
        known = told.entries.index(last) if last in told.entries else known
    wires = request.messages.wires
    behind = told.messages[known].span[0] if known < len(told.messages) else len(wires)
    return request.with_messages([*ClientWords(request, told).assemble(atoms), *wires[behind:]], own_tools)
