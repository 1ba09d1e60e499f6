"""Go back to an earlier entry of a stored session; without one, list its messages and the branches that were left.

Nothing is lost: the messages after the entry stay in the log as a branch of their own, and its last entry leads back to them.
"""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from foveal.analysis.inspect.stored_session import branch_of, entry_id, known_session
from foveal.cli.arguments import add_store, command_line, existing_store
from foveal.cli.marks import append_mark
from foveal.cli.output import Output, utc_time
from foveal.stores.branches import LogBranch, list_branches
from foveal.values.entry import Entry, Message, Rewind, Text, ToolCall

_TEXT_CHARS = 60
"""Characters of a message in the list: a line of 100 columns with its id, time and role."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("entry", metavar="ENTRY", nargs="?", help="the beginning of its id: the last one that stays")
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept in the log beside the mark")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        name = known_session(store, args.session)
        if args.entry is None:
            messages = [entry for entry in branch_of(store, name) if isinstance(entry.body, Message)]
            _list(name, messages, list_branches(store.rows(name))[1:], out)
            return
        before, found = store.cards(name)[0].head, entry_id(store, name, args.entry)
        append_mark(store, name, Rewind(args.reason), found)
    if out.is_json:
        out.document({"session": name, "entry": found, "left": before})
        return
    where = f" --store {shlex.quote(args.store)}" if args.store else ""
    out.line(f"{name} goes on from {found}.")
    out.line(f"Undo: {command_line()} rewind {shlex.quote(name)} {before}{where}")


def _list(name: str, messages: Sequence[Entry], left: Sequence[LogBranch], out: Output) -> None:
    rows = [(entry.id, utc_time(entry.time_ms / 1000), *_words(entry)) for entry in messages]
    if out.is_json:
        listed = [{"entry": id, "time": time, "role": role, "text": text} for id, time, role, text in rows]  # noqa: A001
        out.document({"session": name, "messages": listed, "branches": left})
        return
    out.table(("entry", "time", "role", "text"), rows, "llll")
    if left:
        out.line()
        out.line("Branches that were left; rewind to the last entry of one to go on with it", "strong")
        ends = [(one.head, utc_time(one.time_ms / 1000), f"{one.entries:,}", one.forked_from or "–") for one in left]
        out.table(("last entry", "time", "entries", "left at"), ends, "llrl")


def _words(entry: Entry) -> tuple[str, str]:
    """Return the role of a message and the beginning of its text."""
    message = entry.body
    assert isinstance(message, Message)  # noqa: S101 - the caller has looked
    texts = (part.text for part in message.parts if isinstance(part, Text))
    calls = (f"→ {part.name} {part.arguments}" for part in message.parts if isinstance(part, ToolCall))
    return message.role, " ".join(" ".join((*texts, *calls)).split())[:_TEXT_CHARS]
