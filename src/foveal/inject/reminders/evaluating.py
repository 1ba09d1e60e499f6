"""Which reminders a call gets. Pure: the same rules, situation and past give the same texts.

What was said before is a mapping from a rule's id to the call in which it was last said. A rule that was said in this very call
is said again, so that asking twice for one prompt gives the same prompt twice.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from foveal.core.codec import sendable
from foveal.core.trace import Line
from foveal.core.view import JOINT
from foveal.inject.reminders.rules import Ready, Rulebook
from foveal.inject.reminders.situation import OneShot, Situation
from foveal.inject.reminders.templates import VALUE_CHARS, Value, one_line

Wrap: TypeAlias = Callable[[str, str, Mapping[str, str]], str]
"""The frame around a text of this kind, with its attributes; makes whatever could be taken for a frame harmless."""

KIND = "reminder"

MOST_TOKENS = 1_000
"""All built-in rules at once take about half of it; a host's own texts share the rest."""

_SHORT_CHARS = 4_000
_REMEMBERED = 256

ONCE = "once:"
"""Before the id of a host's one-shot reminder: it never meets the id of a rule."""


class Reminder(msgspec.Struct, frozen=True):
    """One reminder as it is sent."""

    id: str
    text: str
    tokens: int
    language: str


class Suppressed(msgspec.Struct, frozen=True):
    """A reminder that had something to say and was held back."""

    id: str
    because: str
    tokens: int = 0
    """What it would have taken, where that is the reason."""


class Reminded(msgspec.Struct, frozen=True):
    """What a call is reminded of, what was held back, and what has been said by now."""

    reminders: tuple[Reminder, ...]
    suppressed: tuple[Suppressed, ...]
    shown: dict[str, int]
    language: str

    @property
    def tokens(self) -> int:
        return sum(reminder.tokens for reminder in self.reminders)

    def lines(self) -> Iterator[Line]:
        """One line of the trace for each of them."""
        for one in self.reminders:
            said = "" if one.language == self.language else f"said in {one.language}: no text in {self.language}"
            yield Line(one.id, KIND, "full", KIND, said, one.tokens, one.tokens)
        for one in self.suppressed:
            yield Line(one.id, KIND, "hidden", KIND, one.because, 0, one.tokens)


def evaluate(
    book: Rulebook,
    situation: Situation,
    shown: Mapping[str, int],
    *,
    count: Callable[[str], int],
    wrap: Wrap,
    most_tokens: int = MOST_TOKENS,
) -> Reminded:
    """The reminders of this call: the host's own first, then the rules in their order, as far as there is room."""
    reminders, held, left = list[Reminder](), list[Suppressed](), most_tokens
    for name, text, language in _due(book, situation, shown, held):
        sent = sendable(wrap(KIND, text, _NO_ATTRIBUTES))
        tokens = count(sent) + JOINT.tokens
        if tokens > left:
            held.append(Suppressed(name, f"{tokens:,} tokens, and {left:,} of {most_tokens:,} are left", tokens))
            continue
        left -= tokens
        reminders.append(Reminder(name, sent, tokens, language))
    said = {reminder.id: situation.call for reminder in reminders}
    return Reminded(tuple(reminders), tuple(held), {**shown, **said}, book.language)


def remembering(wrap: Wrap) -> Wrap:
    """The frame with the last texts at hand: most reminders say in a call what they said in the one before."""
    known: dict[tuple[str, str], str] = {}

    def remembered(kind: str, text: str, attributes: Mapping[str, str]) -> str:
        if attributes or len(text) > _SHORT_CHARS:
            return wrap(kind, text, attributes)
        framed = known.get((kind, text))
        if framed is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            framed = known[kind, text] = wrap(kind, text, attributes)
        return framed

    return remembered


_NO_ATTRIBUTES: Mapping[str, str] = {}


def _due(
    book: Rulebook, now: Situation, shown: Mapping[str, int], held: list[Suppressed]
) -> Iterator[tuple[str, str, str]]:
    """Id, text and language of all that has something to say now; whatever its past forbids goes to `held`."""
    own: dict[str, OneShot] = {ONCE + one.id: one for one in now.one_shots if one.text.strip()}
    for name, one in own.items():
        # What was said once is over: no line in the trace of each later call for it.
        if shown.get(name, now.call) >= now.call:
            yield name, one.text, book.language
    for ready in book.rules:
        values = ready.ask(now)
        if values is None or not _holds(ready, values):
            continue
        if because := _forbidden(ready, now, shown):
            held.append(Suppressed(ready.rule.id, because))
            continue
        yield ready.rule.id, ready.template.fill(_plain(values)), ready.language


def _plain(values: Mapping[str, Value]) -> dict[str, Value]:
    """The values with texts on one line each: most come from tools, files and models."""
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


def _forbidden(ready: Ready, now: Situation, shown: Mapping[str, int]) -> str:
    """Why it may not be said now; empty if it may."""
    rule, last = ready.rule, shown.get(ready.rule.id, now.call)
    if missing := next((tool for tool in rule.needs_tools if tool not in now.offered_tools), None):
        return f"the tool {missing} is not offered"
    if rule.once and last < now.call:
        return f"said once, in call {last}"
    if rule.every is not None and last < now.call < last + rule.every:
        return f"said in call {last}, and again from call {last + rule.every} on"
    return ""
