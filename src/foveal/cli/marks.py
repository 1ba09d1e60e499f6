"""Marking entries of a stored session: what `foveal pin` and `foveal unpin` have in common."""

import warnings
from argparse import ArgumentParser, Namespace

from foveal import log
from foveal.cli.output import Output, add_json
from foveal.cli.stored import add_store, existing_store, known_session, optics_of
from foveal.core.entry import Message, Pin, Unpin
from foveal.core.errors import BadInput, NotFound, SessionHeld
from foveal.core.pins import collect_pins
from foveal.optics import UnknownModelWarning
from foveal.session import Session, setup_at
from foveal.stores.port import Store


def add_entry(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("entry", metavar="ENTRY", help="the beginning of its id, as `foveal why` lists it")
    add_store(parser)
    add_json(parser)


def set_pin(args: Namespace, out: Output, *, pinned: bool, reason: str = "") -> int:
    """Have the entry pinned, or not. Where it is so already, nothing is written."""
    with existing_store(args.store) as store:
        name = known_session(store, args.session)
        entry, is_pinned = _found(store, name, args.entry)
        if is_pinned != pinned:
            _append(store, name, Pin(entry, reason) if pinned else Unpin(entry))
    if out.is_json:
        out.document({"session": name, "entry": entry, "pinned": pinned, "changed": is_pinned != pinned})
        return 0
    state = "pinned" if pinned else "not pinned"
    out.line(f"{entry} is now {state}" if is_pinned != pinned else f"{entry} was {state}")
    return 0


def _found(store: Store, name: str, prefix: str) -> tuple[str, bool]:
    """The message whose id begins like this, and whether it is pinned."""
    found = store.find(name, prefix)
    if len(found) != 1:
        many = "several entries begin" if found else "no entry begins"
        raise NotFound(f"{many} with {prefix!r} in session {name!r}; `foveal why` lists them")
    branch = [log.to_entry(row, name) for row in log.branch(store.rows(name))]
    entry = next((entry for entry in branch if entry.id == found[0].id), None)
    if entry is None:
        raise NotFound(f"entry {found[0].id} is on a branch of session {name!r} that was left; no prompt shows it")
    if not isinstance(entry.body, Message):
        raise BadInput(f"entry {entry.id} is a {type(entry.body).__name__.lower()}; only messages are pinned")
    return entry.id, entry.id in collect_pins(branch).entries


def _append(store: Store, name: str, mark: Pin | Unpin) -> None:
    optics = optics_of(setup_at(store, name))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)  # it was said when the session was made
            session = Session(
                store,
                name,
                model=optics.model,
                policy=optics.policy,
                dialect=optics.dialect.name,
                counter=optics.counter,
                author="cli",
            )
    except SessionHeld as error:
        what = str(error).partition(". ")[0]
        raise SessionHeld(f"{what}; nothing was written. Close it there, or pin from there") from None
    with session:
        session.append(mark)
