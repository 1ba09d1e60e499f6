"""Search everything that a session ever saw, and print the best places with their references.

Any of the words will do, and rare ones count more. With --like, what means nearly the same is found as well.
`foveal recall SESSION REF` gives the rest of a place.
"""

from argparse import ArgumentParser, Namespace

from foveal.analysis.inspect.stored_session import known_session
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output
from foveal.recall.search import local_embedder, search


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("words", metavar="WORDS", nargs="+")
    parser.add_argument("--limit", metavar="N", type=int, default=10, help="print so many places at most (default: 10)")
    parser.add_argument(
        "--like", action="store_true", help="find what is near in meaning, too (needs the extra `embed`)"
    )
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    words = " ".join(args.words)
    embedder = local_embedder() if args.like else None
    with existing_store(args.store) as store:
        hits = search(store, known_session(store, args.session), words, limit=args.limit, embedder=embedder)
    if out.is_json:
        out.document({"session": args.session, "query": words, "hits": hits})
        return
    for hit in hits:
        out.line(
            f"{hit.ref}  {hit.kind}, entry {hit.seq:,}, line {hit.line:,} of {hit.characters:,} characters", "strong"
        )
        for line in hit.snippet.split("\n"):
            out.line(f"    {line}")
    if not hits:
        out.line("nothing found")
