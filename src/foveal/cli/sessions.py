"""List the sessions of a store."""

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime

from foveal.agent.inbox import is_inbox
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        cards = [card for card in store.cards() if not is_inbox(card.id)]
    rows = [
        (
            card.id,
            f"{card.entries:,}",
            _time(card.created_ms),
            _time(card.updated_ms),
            card.holder or "–",
            card.scope or "–",
        )
        for card in cards
    ]
    if out.is_json:
        out.document({"sessions": cards})
    elif rows:
        out.table(("session", "entries", "created", "last entry", "held by", "scope"), rows, "lrllll")
    else:
        out.line("no sessions yet")


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
