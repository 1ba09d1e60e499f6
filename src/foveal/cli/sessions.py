"""List the sessions of a store."""

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

import msgspec

from foveal.cli.output import Output, add_json
from foveal.cli.stores import add_store, existing_store


def configure(parser: ArgumentParser) -> None:
    add_store(parser)
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        cards = store.cards()
    if out.is_json:
        out.document({"sessions": [msgspec.to_builtins(card) for card in cards]})
        return 0
    if not cards:
        out.line("no sessions yet")
        return 0
    rows = [
        (card.id, f"{card.entries:,}", _time(card.created_ms), _time(card.updated_ms), card.holder or "–")
        for card in cards
    ]
    out.table(("session", "entries", "created", "last entry", "held by"), rows, "lrlll")
    return 0


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
