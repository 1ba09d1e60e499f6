"""Pin an entry of a stored session: every prompt shows it in full from now on, and no stage folds it.

With --remove it is unpinned, and may be folded again.
"""

from argparse import ArgumentParser, Namespace

from foveal.analysis.inspect.stored_session import branch_of, entry_id, known_session
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.marks import append_mark
from foveal.cli.output import Output
from foveal.record.intake import check_pin
from foveal.stores.port import Store
from foveal.values.entry import Entry, Message, Pin, Unpin
from foveal.values.errors import BadInput, NotFound
from foveal.values.pins import collect_pins


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("entry", metavar="ENTRY", nargs="?", help="the beginning of its id, as `foveal why` lists it")
    parser.add_argument("--remove", action="store_true", help="unpin it")
    parser.add_argument("--text", metavar="PASSAGE", default="", help="only this passage of the entry")
    parser.add_argument("--tool", metavar="NAME", default="", help="all results of this tool, in place of an entry")
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept in the log beside the mark")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    """Pin or unpin. Write nothing where the state is already as asked for."""
    if bool(args.entry) == bool(args.tool):
        raise BadInput("name an entry or --tool, one of the two")
    if args.remove and args.reason:
        raise BadInput("--reason is kept with a pin; leave it out with --remove")
    with existing_store(args.store) as store:
        name = known_session(store, args.session)
        branch = branch_of(store, name)
        entry = _message(store, name, args.entry, branch) if args.entry else ""
        pin, unpin = Pin(entry, args.reason, args.tool, args.text), Unpin(entry, args.tool, args.text)
        pins = collect_pins(branch)
        changed = pins.after(unpin if args.remove else pin) != pins
        if changed:
            if not args.remove:
                check_pin(pin, store, name)
            append_mark(store, name, unpin if args.remove else pin)
    if out.is_json:
        about = {"session": name, "entry": entry, "tool": args.tool, "text": args.text}
        out.document({**about, "pinned": not args.remove, "changed": changed})
        return
    state = "not pinned" if args.remove else "pinned"
    now, before = ("is now", "was") if entry else ("its results are now", "its results were")
    what = entry or f"{args.tool}:"
    out.line(f"{what} {now if changed else before} {state}")


def _message(store: Store, name: str, prefix: str, branch: list[Entry]) -> str:
    """Return the id of the message whose id begins with `prefix`."""
    found = entry_id(store, name, prefix)
    entry = next((entry for entry in branch if entry.id == found), None)
    if entry is None:
        raise NotFound(f"entry {found} is on a branch of session {name!r} that was left; no prompt shows it")
    if not isinstance(entry.body, Message):
        raise BadInput(f"entry {entry.id} is a {type(entry.body).__name__.lower()}; only messages are pinned")
    return entry.id
