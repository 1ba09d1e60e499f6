"""Delete sessions, with their children, artifacts and search indexes.

Nothing can bring them back. A tombstone without names stays in the store: it proves that a log was deleted, and when.
Without --yes, only says what would be deleted, and exits with 1; so it does if something was left, and says why.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output
from foveal.stores.deletion import Deletion, delete_sessions, with_children
from foveal.stores.port import SessionCard


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="+")
    parser.add_argument("--takeover", action="store_true", help="even if a process is writing it at this moment")
    add_yes(parser)
    add_store(parser)


def run(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        listed = with_children(store, args.sessions)
        return delete_listed(listed, lambda: delete_sessions(store, args.sessions, takeover=args.takeover), args, out)


def add_yes(parser: ArgumentParser) -> None:
    """Add the option `--yes`."""
    parser.add_argument("--yes", action="store_true", help="delete, and do not just list")


def delete_listed(cards: Sequence[SessionCard], delete: Callable[[], Deletion], args: Namespace, out: Output) -> int:
    """Delete these sessions if that was confirmed, else list them; return the exit code."""
    if not args.yes or not cards:
        if out.is_json:
            out.document({"would_delete": [card.id for card in cards]})
            return int(bool(cards))
        for card in cards:
            out.line(f"{card.id}: {card.entries:,} entries")
        count = f"{len(cards):,} session{'s' if len(cards) != 1 else ''}"
        out.line(f"{count} would be deleted; nothing was. Add --yes to delete." if cards else "nothing to delete")
        return int(bool(cards))
    done = delete()
    if out.is_json:
        counts = {"artifacts": done.artifacts, "put_again": done.put_again}
        out.document({"deleted": done.sessions, "tombstones": done.tombstones, **counts, "left": done.left})
        return int(bool(done.left))
    for name, tombstone in zip(done.sessions, done.tombstones, strict=True):
        out.line(f"{name}: deleted {tombstone.entries:,} entries; the log ended with {tombstone.chain}")
    if done.artifacts:
        out.line(f"{done.artifacts:,} artifacts went with them")
    if done.put_again:
        out.line(
            f"{done.put_again:,} artifacts stay, because they were put since, or a moment ago, as for a session that is about to "
            "name them; if none does, `foveal store vacuum` removes them after a day"
        )
    for reason in done.left:
        out.line(reason, "bad")
    return int(bool(done.left))
