"""Print the original behind a reference: whole, or some lines, characters or matches of it.

A line ends with a line feed and nothing else. Patterns are regular expressions without backreferences and looking around; each
line is matched by itself.
"""

from argparse import ArgumentParser, Namespace
from typing import Any

import msgspec

from foveal import recall
from foveal.analysis.inspect.stored_session import known_session
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output, complain
from foveal.recall import Fetch, Fetched
from foveal.values.errors import BadInput

MOST_CHARACTERS = 1 << 24
"""More than a person reads; the rest is announced on stderr."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("ref", metavar="REF", help="as a stand-in or `foveal why` names it: ID, ID.PART or FIRST..LAST")
    parser.add_argument("--lines", metavar="A-B", help="these lines, counted from 1 (A- and -B leave an end open)")
    parser.add_argument("--offset", metavar="N", type=int, help="leave out so many lines (or characters) first")
    parser.add_argument("--limit", metavar="N", type=int, help="print so many lines (or characters) at most")
    parser.add_argument("--unit", choices=("lines", "characters"), help="what --offset and --limit count")
    parser.add_argument("--pattern", metavar="RE", help="only lines that match, with their numbers")
    parser.add_argument("--context", metavar="N", type=int, help="lines around each match (default: 2)")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    window = _window(args)
    with existing_store(args.store) as store:
        there = recall.named_original(store, known_session(store, args.session), args.ref)
        session = there.session
        if window is not None:
            found = msgspec.structs.replace(window, ref=there.ref)
            fetched = recall.fetch(store, session, found, most=MOST_CHARACTERS)
            _print(args.session, window, fetched, out=out)
        elif out.is_json or out.is_terminal:
            _print_whole(args, recall.read(store, session, there.ref), out)
        else:
            for block in recall.blocks(store, session, there.ref):
                out.raw(block)


def _window(args: Namespace) -> Fetch | None:
    """Return the window that is asked for; None if that is everything."""
    named: dict[str, Any] = {name: getattr(args, name) for name in ("offset", "limit", "unit", "pattern", "context")}
    asked = {name: value for name, value in named.items() if value is not None}
    if args.lines is not None:
        if asked.keys() & {"offset", "limit", "unit"}:
            raise BadInput("--lines says what --offset, --limit and --unit say; give one or the other")
        asked |= _lines(args.lines)
    if not asked:
        return None
    asked.setdefault("limit", MOST_CHARACTERS)
    return Fetch(args.ref, **asked)


def _lines(text: str) -> dict[str, int]:
    first, dash, last = text.partition("-")
    numbers = [word for word in (first, last) if word]
    if not numbers or not all(word.isascii() and word.isdecimal() for word in numbers):
        raise BadInput(f"--lines {text} is not understood; give two line numbers, for example 120-180")
    start = int(first or 1)
    end = int(last or start) if last or not dash else start + MOST_CHARACTERS
    if start < 1 or end < start:
        raise BadInput(f"--lines {text} names no line; lines are counted from 1")
    return {"offset": start - 1, "limit": end - start + 1}


def _print(session: str, window: Fetch, fetched: Fetched, *, out: Output) -> None:
    if out.is_json:
        known = {"session": session, "ref": window.ref}
        out.document({**known, **msgspec.to_builtins(fetched), "more": fetched.more})
        return
    out.raw(fetched.text)
    if fetched.matches == 0:
        complain(f"no line of {fetched.total:,} matches {window.pattern!r}")
    elif fetched.next and (window.pattern is not None or fetched.last < window.offset + window.limit):
        complain(f"more follows; go on with --offset {fetched.next.offset} --unit {fetched.next.unit}")


def _print_whole(args: Namespace, text: str, out: Output) -> None:
    if out.is_json:
        out.document({"session": args.session, "ref": args.ref, "text": text})
    else:
        out.raw(text)
