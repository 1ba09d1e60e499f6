"""List the notes and the sessions of a scope, or forget a note.

A scope is named by `memory` in the policy. A note that is forgotten is shown in no prompt from now on, in running sessions too.
To remove the words of a session, delete the session.
"""

from argparse import ArgumentParser, Namespace

from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output
from foveal.recall import day_of
from foveal.values.errors import NotFound


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("scope", metavar="SCOPE")
    parser.add_argument("--forget", metavar="KEY", help="remove the note of this key")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        scope = store.scope(args.scope)
        notes, cards = scope.notes(), scope.sessions()
        if not notes and not cards:
            raise NotFound(f"the store has no session in the scope {args.scope!r}; `foveal sessions` lists all of them")
        if args.forget is not None:
            if not scope.forget(args.forget):
                raise NotFound(f"the scope {args.scope!r} has no note {args.forget!r}; nothing was forgotten")
            notes = scope.notes()
    if out.is_json:
        out.document({"scope": args.scope, "notes": notes, "sessions": [card.id for card in cards]})
        return
    if args.forget is not None:
        out.line(f"forgotten: {args.forget}", "good")
    for note in notes:
        out.line(f"{note.key}  kept by {note.author} in {note.session}, {day_of(note.time_ms)}", "strong")
        for line in note.text.split("\n"):
            out.line(f"    {line}")
    out.line(f"{len(notes):,} notes; {len(cards):,} sessions")
    for card in cards:
        out.line(f"    {card.id}  {card.entries:,} entries, {day_of(card.updated_ms)}")
