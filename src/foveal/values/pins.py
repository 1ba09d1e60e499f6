"""What is pinned at one point of a branch: whole entries, all results of a tool, or a passage of an entry."""

from collections.abc import Callable, Iterable

import msgspec

from foveal.values.entry import Entry, Pin, Unpin


class Pins(msgspec.Struct, frozen=True):
    entries: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    quotes: frozenset[tuple[str, str]] = frozenset()
    """Passages that stay verbatim whatever becomes of their entry.

    A passage that could be taken for the frame is shown as the guard makes it, like the entry that it comes from.
    """

    def after(self, mark: Pin | Unpin) -> "Pins":
        """The pins after one more mark."""
        entries, tools, quotes = set(self.entries), set(self.tools), set(self.quotes)
        if isinstance(mark, Pin):
            change = set[str].add, set[tuple[str, str]].add
        else:
            change = set[str].discard, set[tuple[str, str]].discard
        if mark.tool:
            change[0](tools, mark.tool)
        if mark.entry and mark.text:
            change[1](quotes, (mark.entry, mark.text))
        elif mark.entry:
            change[0](entries, mark.entry)
        return Pins(frozenset(entries), frozenset(tools), frozenset(quotes))

    def quotes_of(self, entries: Iterable[str], shown: Callable[[str], str]) -> dict[str, str]:
        """The passages of these entries that are pinned, in a fixed order, each with how it is shown."""
        wanted = set(entries)
        return {text: shown(text) for text in sorted({text for entry, text in self.quotes if entry in wanted})}


NO_PINS = Pins()


def collect_pins(entries: Iterable[Entry]) -> Pins:
    """What is pinned at the end of this branch."""
    pins = NO_PINS
    for entry in entries:
        if isinstance(entry.body, Pin | Unpin):
            pins = pins.after(entry.body)
    return pins


def with_quotes(text: str, quotes: Iterable[str]) -> str:
    """A stand-in with the pinned passages that it does not show of its own."""
    missing = [quote for quote in quotes if quote not in text]
    return "\n".join((text, *(f"[pinned]\n{quote}" for quote in missing))) if missing else text
