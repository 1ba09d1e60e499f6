"""The reminders of one session: the state that its rules look at, followed message by message."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import count

import msgspec

from foveal.context.frame import SessionFrame
from foveal.context.injection import NextCall
from foveal.context.options import ContextOptions
from foveal.context.reminders.evaluation import KIND, MOST_TOKENS, ReminderFrame, evaluate
from foveal.context.reminders.loops import FRESH, current_loop, update
from foveal.context.reminders.rulebook import rulebook
from foveal.context.reminders.situation import OneShot, RecordedAfter, Situation, news_in
from foveal.context.reminders.triggers import Trigger
from foveal.fit.stages.superseded import POLLING
from foveal.project.view import View
from foveal.summary.ledger import EMPTY, LedgerBuilder, LedgerStep, take_step
from foveal.summary.ledger.extractors import todos
from foveal.summary.state import decode_summary
from foveal.values.entry import Block, Message, News, ToolCall
from foveal.values.events import Pressure
from foveal.values.shown import JOINT, MESSAGE_TOKENS
from foveal.values.trace import TraceLine, block_lines


class SessionReminders:
    """Follows one session and evaluates its rules for each call."""

    def __init__(
        self, options: ContextOptions, triggers: Iterable[Trigger], frame: SessionFrame, count: Callable[[str], int]
    ) -> None:
        self._book = rulebook(
            options.reminders, language=options.language, catalogues=options.catalogues, triggers=triggers
        )
        self._session_frame, self._count = frame, count
        self._trail, self._streak, self._ledger = FRESH, 0, LedgerBuilder(EMPTY)

    def follow(self, view: View, recorded: RecordedAfter) -> None:
        """Begin anew with the state of a session that exists already.

        Messages since the user last spoke are read as they were recorded: a fold may have cut what a loop is recognised by.
        """
        self._trail, self._streak = FRESH, 0
        todos = decode_summary(view.facts.summary.state).ledger.todos
        self._ledger = LedgerBuilder(msgspec.structs.replace(EMPTY, todos=todos))
        items = [item for atom in view.atoms for item in atom.items]
        spoke = max((item.seq for item in items if item.role == "user"), default=0)
        for item in sorted((item for item in items if item.seq < spoke), key=lambda item: item.seq):
            parts = tuple(shown.part for shown in item.shown if shown.part is not None)
            self.observe(item.seq, Message(item.role, parts, item.model))
        for seq, message in recorded(max(0, spoke - 1)):
            self.observe(seq, message)

    def observe(self, place: int, message: Message) -> None:
        """Take a message into account."""
        self._trail = update(self._trail, message, polling=POLLING)
        calls = sum(isinstance(part, ToolCall) for part in message.parts)
        self._streak = 0 if message.role == "user" else self._streak + calls
        take_step(self._ledger, LedgerStep("", message, place), (todos,))

    def shown(
        self,
        view: View,
        *,
        pressure: Pressure,
        next_call: NextCall,
        turn: int,
        offered: frozenset[str],
        known: Mapping[str, str | tuple[str, ...]],
        has_room: bool,
    ) -> tuple[tuple[Block, ...], tuple[TraceLine, ...]]:
        """Return the reminders of the next call as at most one block, and their lines of the trace.

        `known` are fields of the situation that others know.
        """
        level = pressure.level
        situation = Situation(
            call=view.facts.calls + 1,
            turn=turn,
            steps_left=next_call.steps_left,
            used_tokens=pressure.tokens,
            limit_tokens=pressure.limit,
            pressure=None if level == "none" else level,
            todos=self._ledger.todos,
            repeated=current_loop(self._trail),
            streak=self._streak,
            offered_tools=offered,
            facts=next_call.facts,
        )
        situation = msgspec.structs.replace(situation, **known, **news_in(view.facts.news))
        count, most = view.projection.measure.count, MOST_TOKENS if has_room else 0
        said = evaluate(self._book, situation, view.facts.reminded, count=count, frame=self._frame, most_tokens=most)
        blocks: tuple[Block, ...] = ()
        if said.reminders:
            blocks = (Block("reminders", KIND, "user", "tail", said.text, said.tokens, said=said.reminders),)
        return blocks, (*block_lines(blocks), *said.held)

    @cached_property
    def _frame(self) -> ReminderFrame:
        """The frame of all reminders, counted as a message of its own: some formats join it to another, others do not."""
        opening, closing = self._session_frame.tags(KIND)
        return ReminderFrame(
            opening, closing, self._count(opening) + self._count(closing) + JOINT.tokens + MESSAGE_TOKENS
        )


def one_shot(name: str, text: str, marks: Iterable[News]) -> OneShot | None:
    """Return a host's text for the next call under a name of its own; None if it is there already."""
    known = {once.id: once for once in news_in(marks).get("one_shots", ()) if isinstance(once, OneShot)}
    for number in count(1):
        once = OneShot(_numbered(name, number), text)
        if known.get(once.id) == once:
            return None
        if once.id not in known:
            return once
    raise AssertionError  # the numbers do not end


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
