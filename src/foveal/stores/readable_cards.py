"""The sessions of a list of which some are damaged: what can be read of it, and what cannot."""

from collections.abc import Callable, Sequence

from foveal.stores.port import SessionCard
from foveal.values.errors import ListDamaged, StoreCorrupt


def readable_cards(listed: Callable[[], Sequence[SessionCard]]) -> tuple[list[SessionCard], dict[str, StoreCorrupt]]:
    """Return the cards of a list of sessions that can be read, and the damage of the others by their names. A session of which
    only the labels are damaged is in both. `StoreCorrupt` from a store that cannot list the rest."""
    try:
        return list(listed()), {}
    except ListDamaged as error:
        return list(error.cards), error.damage


def readable_pages(page: Callable[[str], Sequence[SessionCard]]) -> tuple[list[SessionCard], dict[str, StoreCorrupt]]:
    """Return the same of a list that is read page by page, in the order of names: `page` returns the cards behind a name."""
    cards, damage, after = list[SessionCard](), dict[str, StoreCorrupt](), ""
    while True:
        found, damaged = readable_cards(lambda after=after: page(after))
        if not found and not damaged:
            return cards, damage
        cards += found
        damage |= damaged
        after = max([*damaged, *(card.id for card in found)])
