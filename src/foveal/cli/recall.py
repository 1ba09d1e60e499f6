"""Print the original behind a reference, whole."""

from argparse import ArgumentParser, Namespace

from foveal import recall
from foveal.cli.output import Output, add_json
from foveal.cli.stored import add_store, existing_store, known_session


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("ref", metavar="REF", help="as a stand-in or `foveal why` names it: ID, ID.PART or FIRST..LAST")
    add_store(parser)
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        text = recall.read(store, known_session(store, args.session), args.ref)
    if out.is_json:
        out.document({"session": args.session, "ref": args.ref, "text": text})
    else:
        out.raw(text)
    return 0
