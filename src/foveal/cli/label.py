"""Give a session a title or tags, or take them away.

The name of a session stays: its children, its memory and the references of other sessions carry it. `foveal sessions --tag TAG`
lists by a tag.
"""

from argparse import ArgumentParser, Namespace

from foveal.analysis.inspect.stored_session import known_session
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    titles = parser.add_mutually_exclusive_group()
    titles.add_argument("--title", metavar="TEXT", help="a line for people, shown beside the name")
    titles.add_argument("--no-title", action="store_true", help="take the title away")
    parser.add_argument("--tag", metavar="TAG", action="append", default=[], help="add a tag; may be given again")
    parser.add_argument("--untag", metavar="TAG", action="append", default=[], help="remove a tag; may be given again")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        name = known_session(store, args.session)
        if args.tag or args.untag:
            store.tag(name, add=args.tag, remove=args.untag)
        if args.title is not None or args.no_title:
            store.entitle(name, args.title)
        (card,) = store.cards(name)
    if out.is_json:
        out.document({"session": card.id, "title": card.title, "tags": card.tags})
    else:
        out.line(f"{card.id}: {card.title or 'no title'}; {', '.join(card.tags) or 'no tags'}")
