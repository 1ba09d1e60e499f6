"""List the sessions of a store: all of them, or by tag, by time, or by words that were said in them.

With --branches, the ends of each log: a session that was rewound, or whose client went back, has more than one. `foveal label`
gives a session its tags and its title. Exit code 1 if a session of a database is damaged, or if --search could not read one,
because it is damaged or its key is not in $FOVEAL_KEYS: the others are listed or searched, and it is named.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

import msgspec

from foveal.agent.inbox import is_inbox
from foveal.cli.arguments import add_store, age_s, existing_store, positive, private_options
from foveal.cli.output import Output, utc_time
from foveal.recall.search import SessionHit, search_store
from foveal.stores.branches import LogBranch, list_branches
from foveal.stores.port import SessionCard, Store
from foveal.stores.readable_cards import readable_cards, readable_pages
from foveal.stores.rows import readable_titles
from foveal.values.errors import StoreCorrupt, StoreError


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--tag", metavar="TAG", help="those that have this tag")
    parser.add_argument("--since", metavar="AGE", type=age_s, help="those that were written since: 12h, 7d, 2w")
    parser.add_argument(
        "--search", metavar="WORDS", help="those in which people or the model said any of these, best first"
    )
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=20, help="so many that --search finds (default: 20)"
    )
    parser.add_argument("--branches", action="store_true", help="list the branches of each")
    add_store(parser)


def run(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        cards, damage = _listed(store, args)
        hits, unreadable = list[SessionHit](), dict[str, StoreError]()
        if args.search is not None:
            known = {card.id: card for card in cards}
            hits = search_store(
                store, args.search, sessions=known.keys(), limit=args.limit, on_unreadable=unreadable.__setitem__
            )
            if cards and not hits and len(unreadable) == len(cards):  # none of them could be searched
                raise next(iter(unreadable.values()))
            cards = [known[hit.session] for hit in hits]
        branches = [list_branches(store.rows(card.id)) for card in cards] if args.branches else []
    if out.is_json:
        found = {hit.session: {"hit": hit} for hit in hits}
        ends = {card.id: {"branches": listed} for card, listed in zip(cards, branches, strict=False)}
        rows = [msgspec.to_builtins(card) | found.get(card.id, {}) | ends.get(card.id, {}) for card in cards]
        unread = {name: str(error) for name, error in (damage | unreadable).items()}
        out.document({"sessions": rows} | ({} if args.search is None and not unread else {"unreadable": unread}))
    elif not cards and damage:
        pass  # which is told
    elif not cards:
        out.line("no sessions yet" if args.tag is args.since is args.search is None else "nothing found")
    elif args.branches:
        _print_branches(cards, branches, out)
    elif args.search is not None:
        _print_hits(hits, cards, out)
    else:
        _print_cards(cards, out)
    if not out.is_json:
        _tell_unreadable(damage, "damaged", out)
        _tell_unreadable(unreadable, "not searched", out)
    return int(bool(damage or unreadable))


def _listed(store: Store, args: Namespace) -> tuple[list[SessionCard], dict[str, StoreCorrupt]]:
    """Return the cards that tag and time leave, most recently written first, and the damage of those that cannot be listed."""
    since_ms = None if args.since is None else time.time_ns() // 1_000_000 - args.since * 1000
    if args.tag is None:
        cards, damage = readable_cards(store.cards)
    else:
        cards, damage = readable_pages(lambda after: store.page(tag=args.tag, after=after))
        cards.sort(key=lambda card: -card.updated_ms)
    found = [card for card in cards if not is_inbox(card.id) and (since_ms is None or card.updated_ms >= since_ms)]
    return found if any(private_options().values()) else readable_titles(store, found), damage


def _print_cards(cards: Sequence[SessionCard], out: Output) -> None:
    rows = [
        (
            _name(card),
            f"{card.entries:,}",
            utc_time(card.created_ms / 1000),
            utc_time(card.updated_ms / 1000),
            card.holder or "–",
            card.scope or "–",
            ", ".join(card.tags) or "–",
        )
        for card in cards
    ]
    out.table(("session", "entries", "created", "last entry", "held by", "scope", "tags"), rows, "lrlllll")


def _print_hits(hits: Sequence[SessionHit], cards: Sequence[SessionCard], out: Output) -> None:
    for hit, card in zip(hits, cards, strict=True):
        out.line(f"{_name(card)}  {hit.role}, entry {hit.seq:,}, {utc_time(hit.time_ms / 1000)}", "strong")
        for line in hit.snippet.split("\n"):
            out.line(f"    {line}")


def _tell_unreadable(unreadable: Mapping[str, StoreError], what: str, out: Output) -> None:
    """Say which sessions are damaged, or were not searched, once for each reason."""
    names = dict[str, list[str]]()
    for name, error in unreadable.items():
        names.setdefault(str(error).replace(repr(name), "…"), []).append(name)
    for listed in names.values():
        first = listed[0]
        others = f" and {len(listed) - 1:,} more like it (--json names all)" if len(listed) > 1 else ""
        out.line(f"{what}: {first}{others}: {unreadable[first]}", "bad")


def _print_branches(cards: Sequence[SessionCard], branches: Sequence[Sequence[LogBranch]], out: Output) -> None:
    rows = [
        (_name(card), branch.head, f"{branch.entries:,}", utc_time(branch.time_ms / 1000), branch.forked_from or "–")
        for card, listed in zip(cards, branches, strict=True)
        for branch in listed
    ]
    out.table(("session", "branch ends at", "entries", "last entry", "forked from"), rows, "llrll")


def _name(card: SessionCard) -> str:
    return card.id if card.title is None else f"{card.id} ({card.title})"
