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

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from foveal.context.reminders.rule import ReminderRule
from foveal.context.reminders.rulebook import Rulebook
from foveal.context.reminders.situation import Situation
from foveal.context.templates import VALUE_CHARS, Value
from foveal.text import guard
from foveal.text.display import one_line
from foveal.values.codec import sendable
from foveal.values.entry import ONCE, ReminderLine
from foveal.values.trace import TraceLine

KIND = "reminder"

MOST_TOKENS = 1_000
"""All built-in rules at once take about half of it; a host's own texts share the rest."""


class ReminderFrame(NamedTuple):
    """The tags around the reminders of a call, and their tokens, which are counted with the first reminder."""

    opening: str
    closing: str
    tokens: int


class Reminded(NamedTuple):
    """The reminders of a call as they are sent, and lines of the trace for those that were held back."""

    text: str
    """All reminders in their frame; empty if there are none."""
    reminders: tuple[ReminderLine, ...]
    held: tuple[TraceLine, ...]

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
    held = list[TraceLine]()
    due: list[_Due] = list(_due(book, situation, shown, held))
    while due:
        texts = guard.neutralise_joined(tuple([one.item for one in due]))
        said, over = _served(due, texts, count, frame, most_tokens)
        if not over:
            text = "\n".join(texts)
            return Reminded(f"{frame.opening}{text}{frame.closing}", tuple(said), tuple(held))
        # Without the reminders that have no room, others follow each other: all are evaluated anew.
        held += over.values()
        due = [one for one in due if one.id not in over]
    return Reminded("", (), tuple(held))


def _served(
    due: list[_Due], texts: Iterable[str], count: Callable[[str], int], frame: ReminderFrame, most_tokens: int
) -> tuple[list[ReminderLine], dict[str, TraceLine]]:
    """Return all due reminders with their sizes, and those that have no room after the reminders before them."""
    said, over, left = list[ReminderLine](), dict[str, TraceLine](), most_tokens
    for one, text in zip(due, texts, strict=True):
        tokens = count(f"{text}\n") + (0 if said else frame.tokens)
        if tokens > left:
            over[one.id] = _held(one.id, f"{tokens:,} tokens, and {left:,} of {most_tokens:,} are left", tokens)
            continue
        left -= tokens
        framed = "" if said else f"; with the frame of all, {frame.tokens:,} tokens"
        said.append(ReminderLine(one.id, tokens, f"tail{framed}{one.note}"))
    return said, over


def _held(name: str, because: str, raw_tokens: int = 0) -> TraceLine:
    return TraceLine(name, KIND, "hidden", KIND, because, 0, raw_tokens)


def _due(book: Rulebook, now: Situation, shown: Mapping[str, int], held: list[TraceLine]) -> Iterator[_Due]:
    """Yield the reminders that are due now; lines for those that their past forbids are added to `held`."""
    own = {ONCE + one.id: text for one in now.one_shots if (text := one.text.strip())}
    for name, text in own.items():
        yield _Due(name, _item(text), "")
    answers: dict[str, Mapping[str, Value] | None] = {}
    for ready in book.rules:
        rule = ready.rule
        if rule.trigger not in answers:
            answers[rule.trigger] = ready.ask(now)
        values = answers[rule.trigger]
        if values is None or not _holds(rule, values):
            continue
        if because := _forbidden(rule, now, shown):
            held.append(_held(rule.id, because))
        elif text := ready.template.fill(_plain(values)).strip():
            note = "" if ready.language == book.language else f"; said in {ready.language}: no text in {book.language}"
            yield _Due(rule.id, _item(text), note)


def _item(text: str) -> str:
    """Return the text as one item of a list, which cannot begin another."""
    text = sendable(text)
    return f"- {text}" if text.isprintable() else "- " + "\n  ".join(text.splitlines())


def _plain(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values with texts on one line each: most come from tools, files and models."""
    return {name: one_line(value, VALUE_CHARS) if isinstance(value, str) else value for name, value in values.items()}


def _holds(rule: ReminderRule, values: Mapping[str, Value]) -> bool:
    """Return whether the values of a rule's trigger are within its bounds."""
    for name, value in rule.equal.items():
        if values.get(name) != value:
            return False
    for name in (*rule.at_least, *rule.at_most):
        value = values.get(name)
        if not isinstance(value, int) or not rule.at_least.get(name, value) <= value <= rule.at_most.get(name, value):
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
