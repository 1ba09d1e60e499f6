"""The pins at one point of a branch: whole entries, all results of a tool, or a passage of an entry."""

from collections.abc import Callable, Iterable

import msgspec

from foveal.values.entry import Entry, Pin, Unpin


class Pins(msgspec.Struct, frozen=True):
    entries: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    quotes: frozenset[tuple[str, str]] = frozenset()
    """(entry, passage) pairs. The passage stays verbatim even if its entry is folded.

    A passage with a forged tag is shown neutralised, like its entry.
    """

    def after(self, mark: Pin | Unpin) -> "Pins":
        """Return the pins after one more mark."""
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
        """Return the pinned passages of these entries in a fixed order, each mapped to its shown form."""
        wanted = set(entries)
        return {text: shown(text) for text in sorted({text for entry, text in self.quotes if entry in wanted})}


NO_PINS = Pins()


def collect_pins(entries: Iterable[Entry]) -> Pins:
    """Return the pins at the end of this branch."""
    pins = NO_PINS
    for entry in entries:
        if isinstance(entry.body, Pin | Unpin):
            pins = pins.after(entry.body)
    return pins


def with_quotes(text: str, quotes: Iterable[str]) -> str:
    """Return a stand-in followed by the pinned passages that it does not contain."""
    missing = [quote for quote in quotes if quote not in text]
    return "\n".join((text, *(f"[pinned]\n{quote}" for quote in missing))) if missing else text
