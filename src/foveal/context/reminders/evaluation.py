"""The evaluation of a rulebook for one call. Pure: the same rules, situation and past give the same texts.

All reminders share one frame, each an item of a list:

    <foveal:reminder nonce="k3v9x2m1qa">
    - Steps left: 3. Plan so that the answer is given within them.
    - The deploy is broken;
      ask before you push.
    </foveal:reminder>

The further lines of a reminder are indented, so that none begins an item of its own. Frame tags are looked for in all
reminders together, since two in a row may spell a tag that neither holds alone.

The past is a mapping from a rule's id to the call in which it was last shown. A rule that was shown in this very call is shown
again, so that asking twice for one prompt gives the same prompt twice.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from foveal.context.reminders.rule import ReminderRule
from foveal.context.reminders.rulebook import Ready, Rulebook
from foveal.context.reminders.situation import Situation
from foveal.context.templates import VALUE_CHARS, Value
from foveal.text import guard
from foveal.text.display import one_line
from foveal.values.codec import sendable
from foveal.values.entry import ONCE
from foveal.values.trace import TraceLine

KIND = "reminder"

MOST_TOKENS = 1_000
"""All built-in rules at once take about half of it; a host's own texts share the rest."""


class ReminderFrame(NamedTuple):
    """The tags around the reminders of a call, and their tokens, which are counted with the first reminder."""

    opening: str
    closing: str
    tokens: int


class Reminder(msgspec.Struct, frozen=True):
    """One reminder as it is sent."""

    id: str
    text: str
    tokens: int
    because: str = ""
    """Its reason in the trace."""


class Suppressed(msgspec.Struct, frozen=True):
    """A reminder whose rule held, and which was held back."""

    id: str
    because: str
    tokens: int = 0
    """Its size, if that is the reason."""

    def line(self) -> TraceLine:
        """Return its line of the trace."""
        return TraceLine(self.id, KIND, "hidden", KIND, self.because, 0, self.tokens)


class Reminded(msgspec.Struct, frozen=True):
    """The reminders of a call, and those that were held back."""

    text: str
    """All reminders in their frame; empty if there are none."""
    reminders: tuple[Reminder, ...]
    suppressed: tuple[Suppressed, ...]

    @property
    def tokens(self) -> int:
        return sum(reminder.tokens for reminder in self.reminders)


class _Due(NamedTuple):
    """A reminder that is due, before it is known whether there is room for it."""

    id: str
    item: str
    note: str


def evaluate(
    book: Rulebook,
    situation: Situation,
    shown: Mapping[str, int],
    *,
    count: Callable[[str], int],
    frame: ReminderFrame,
    most_tokens: int = MOST_TOKENS,
) -> Reminded:
    """Return the reminders of this call: the host's own first, then the rules in their order, as far as there is room."""
    held = list[Suppressed]()
    due = list(_due(book, situation, shown, held))
    while due:
        said, over = _served(due, count, frame, most_tokens)
        if not over:
            text = "\n".join([reminder.text for reminder in said])
            return Reminded(f"{frame.opening}{text}{frame.closing}", tuple(said), tuple(held))
        # Without the reminders that have no room, others follow each other: all are evaluated anew.
        held += over.values()
        due = [one for one in due if one.id not in over]
    return Reminded("", (), tuple(held))


def _served(
    due: list[_Due], count: Callable[[str], int], frame: ReminderFrame, most_tokens: int
) -> tuple[list[Reminder], dict[str, Suppressed]]:
    """Return all due reminders with their sizes, and those that have no room after the reminders before them."""
    said, over, left = list[Reminder](), dict[str, Suppressed](), most_tokens
    for one, text in zip(due, guard.neutralise_joined(tuple([one.item for one in due])), strict=True):
        tokens = count(f"{text}\n") + (0 if said else frame.tokens)
        if tokens > left:
            because = f"{tokens:,} tokens, and {left:,} of {most_tokens:,} are left"
            over[one.id] = Suppressed(one.id, because, tokens)
            continue
        left -= tokens
        framed = "" if said else f"; with the frame of all, {frame.tokens:,} tokens"
        said.append(Reminder(one.id, text, tokens, f"tail{framed}{one.note}"))
    return said, over


def _due(book: Rulebook, now: Situation, shown: Mapping[str, int], held: list[Suppressed]) -> Iterator[_Due]:
    """Yield the reminders that are due now; those that their past forbids are added to `held`."""
    own = {ONCE + one.id: text for one in now.one_shots if (text := one.text.strip())}
    for name, text in own.items():
        yield _Due(name, _item(text), "")
    for ask, rules in book.waiting:
        values = ask(now)
        if values is None:
            continue
        plain: dict[str, Value] = {}
        for ready in rules:
            if not _holds(ready, values):
                continue
            if because := _forbidden(ready.rule, now, shown):
                held.append(Suppressed(ready.rule.id, because))
                continue
            plain = plain or _plain(values)
            if text := ready.template.fill(plain).strip():
                yield _Due(ready.rule.id, _item(text), _note(ready, book))


def _note(ready: Ready, book: Rulebook) -> str:
    return "" if ready.language == book.language else f"; said in {ready.language}: no text in {book.language}"


def _item(text: str) -> str:
    """Return the text as one item of a list, which cannot begin another."""
    text = sendable(text)
    return f"- {text}" if text.isprintable() else "- " + "\n  ".join(text.splitlines())


def _plain(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values with texts on one line each: most come from tools, files and models."""
    return {name: one_line(value, VALUE_CHARS) if isinstance(value, str) else value for name, value in values.items()}


def _holds(ready: Ready, values: Mapping[str, Value]) -> bool:
    for name, value in ready.equal:
        if values.get(name) != value:
            return False
    for name, least, most in ready.bounds:
        value = values.get(name)
        if not isinstance(value, int) or (least is not None and value < least) or (most is not None and value > most):
            return False
    return True


def _forbidden(rule: ReminderRule, now: Situation, shown: Mapping[str, int]) -> str:
    """Return the reason why a rule may not be shown now; empty if it may."""
    for tool in rule.needs_tools:
        if tool not in now.offered_tools:
            return f"the tool {tool} is not offered"
    if rule.every is None and not rule.once:
        return ""
    last = shown.get(rule.id, now.call)
    if rule.once and last < now.call:
        return f"said once, in call {last}"
    if rule.every is not None and last < now.call < last + rule.every:
        return f"said in call {last}, and again from call {last + rule.every} on"
    return ""
