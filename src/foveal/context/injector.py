"""The injector of one session: follows its messages and makes the side context of each prompt."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from foveal.context import reminders
from foveal.context.environment import NO_ENVIRONMENT, Environment
from foveal.context.fence_placement import PromptFences, next_turn
from foveal.context.fences import STARTED
from foveal.context.foresight import FoldedPast, Foresight
from foveal.context.frame import SessionFrame
from foveal.context.injection import NOTHING, Injection, NextCall
from foveal.context.memory import KIND, MemoryFence, ScopeAccess
from foveal.context.mentions import KnownNames, Mentioned, mentions_in
from foveal.context.options import ContextOptions
from foveal.context.reminders.situation import RecordedAfter, news_mark, nothing_recorded
from foveal.context.start_time import start_line, zone_of
from foveal.project.view import View
from foveal.text import guard
from foveal.text.user_words import user_words
from foveal.values.blocks import context_mark
from foveal.values.entry import ATTACHED, Entry, Fence, Message, News, Text, ToolCall, result
from foveal.values.errors import FovealError
from foveal.values.events import Pressure
from foveal.values.trace import block_lines

_REPLIES = frozenset(("assistant", "tools"))


class Injector:
    """Fences, reminders and sources of one session. Without options and environment it holds nothing, and costs nothing."""

    def __init__(
        self,
        options: ContextOptions,
        environment: Environment | None,
        count: Callable[[str], int],
        *,
        allowed: frozenset[str] | None,
        began_ms: Callable[[], int],
        past: FoldedPast | None = None,
        scope: ScopeAccess | None = None,
    ) -> None:
        given, frame = environment or NO_ENVIRONMENT, SessionFrame()
        last = (KIND,) if scope else ()
        self.fences = PromptFences(options.fences, given.formatters, count=count, wrap=frame.wrap, last=last)
        self._memory = MemoryFence(scope, count) if scope else None
        self.reminders = reminders.SessionReminders(options, given.triggers, frame, count) if options.remind else None
        self.sources = given.sources(count, allowed)
        is_foreseen = past and options.foresight
        self._foresight = Foresight(options.foresight, past, frame, count, scope) if past and is_foreseen else None
        self._frame, self._agents = frame, given.agents
        self._clock, self._began_ms = options.clock, began_ms
        if self._clock is not None:
            zone_of(self._clock)  # an unknown time zone is an error now, not in the first prompt
        self._mentioned = Mentioned()
        self._is_heard = True
        """Whether the model has answered the request that the mentions are of."""
        self._follows = bool(self.sources or self._agents or self.reminders)
        """Whether anything here depends on the messages of the session."""

    def follow(self, view: View, recorded: RecordedAfter = nothing_recorded) -> None:
        """Begin anew with the state of a session that exists already; `recorded` reads its newest messages from the log."""
        if not self._follows:
            return
        if self.reminders:
            self.reminders.follow(view, recorded)
        self._mentioned = self._mentions_in(_newest_request(view)) or Mentioned()
        for source in self.sources:
            source.follow(view, self._mentioned)
        asked = view.place(view.facts.last_user)
        self._is_heard = asked is None or any(atom.kind in _REPLIES for atom in view.atoms[asked:])

    def observe(self, place: int, entry: Entry) -> None:
        """Take an appended entry into account."""
        if not self._follows or not isinstance(entry.body, Message):
            return
        message = entry.body
        if self.reminders:
            self.reminders.observe(place, message)
        if entry.author == ATTACHED:  # the text of a file mentions nobody
            return
        if message.role != "user":
            self._is_heard = self._is_heard or message.role == "assistant"
            for source in self.sources:
                source.observe(message)
        elif (found := self._mentions_in(message)) is not None:
            self._mentioned, self._is_heard = found, False

    def mentioned(self, view: View) -> Mentioned:
        """Return the mentions of the newest request."""
        return self._mentioned if self._follows else self._mentions_in(_newest_request(view)) or Mentioned()

    def tools(self, given: Sequence[Mapping[str, Any]], limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the host's tools and those of the sources; `limit` is the token limit of the prompt."""
        if not self.sources:
            return given
        return [*given, *(tool for source in self.sources for tool in source.tools(limit, self._mentioned))]

    def due_marks(self, view: View, limit: int = 0) -> Iterator[News | Fence]:
        """Yield the marks to append before the next prompt: texts of sources that are new or have changed, and news of them.

        `limit` is the token limit of the prompt.
        """
        shown = {fence.kind: fence.text for fence in view.facts.fences}
        for source in self.sources:
            news = source.news(view)
            if self.reminders:
                yield from (news_mark(field, values) for field, values in news.items())
            for kind, text in source.fences(view):
                if text != shown.get(kind, ""):
                    yield self.fences.fence(view, kind, text, key="", attributes={})
        if (
            self._clock is not None
            and view.facts.first
            and not any(fence.kind == STARTED.name for fence in view.facts.fences)
        ):
            text = start_line(self._began_ms(), self._clock)
            yield self.fences.fence(view, STARTED.name, text, key="", attributes={})
        if self._memory and view.facts.first:
            yield from self._memory.due(
                view, limit, lambda text: self.fences.fence(view, KIND.name, text, key="", attributes={})
            )

    def injection(
        self, view: View, pressure: Pressure, next_call: NextCall, *, offered: frozenset[str], share: float = 1.0
    ) -> Injection:
        """Return the side context of the next prompt. Optional content takes at most this share of the room.

        `offered` are the names of the tools that the prompt offers.
        """
        if not view.facts.fences and self.reminders is None and self._foresight is None:
            return NOTHING
        self._frame.begin(view.nonce)
        fences = self.fences.shown(view, pressure, share)
        blocks, lines = fences.blocks, fences.lines
        if self._foresight:
            left = pressure.limit - pressure.tokens - sum(block.tokens for block in blocks)
            if foreseen := self._foresight.block(view, most=int(pressure.limit * share), left=left):
                blocks, lines = (*blocks, foreseen), (*lines, *block_lines((foreseen,)))
        if self.reminders:
            beside = sum(block.tokens for block in blocks)
            reminded, told = self.reminders.shown(
                view,
                pressure=msgspec.structs.replace(pressure, tokens=pressure.tokens + beside),
                next_call=next_call,
                turn=next_turn(view),
                offered=offered,
                known=self._known(),
                has_room=share > 0,
            )
            blocks, lines = (*blocks, *reminded), (*lines, *told)
        context, tokens = context_mark(view.facts.context, blocks), sum(block.tokens for block in blocks)
        return Injection(context, lines, tokens, fences.mandatory, fences.expired)

    def answer(self, call: ToolCall) -> Message | None:
        """Return the result of a call to a tool that finds tools or reads skills; None for other calls."""
        try:
            for source in self.sources:
                if answer := source.answer(call):
                    return answer
        except FovealError as error:
            return result(call.id, str(error), status="error")
        return None

    def _mentions_in(self, message: Message | None) -> Mentioned | None:
        """Return the mentions of a user's message; None if it asks for nothing, so that the request before it still holds."""
        if message is None:
            return None
        texts = [user_words(part.text) for part in message.parts if isinstance(part, Text)]
        if not any(texts) and len(texts) == len(message.parts):
            return None
        text = "\n".join(texts)
        if "@" not in text and "#" not in text:
            return Mentioned()
        known = KnownNames(agents=self._agents)
        for source in self.sources:
            known |= source.names
        return mentions_in(text, known)

    def _known(self) -> dict[str, str | tuple[str, ...]]:
        """Return the fields of a situation that the sources and the newest request tell."""
        known: dict[str, str | tuple[str, ...]] = {}
        for source in self.sources:
            known |= source.situation
        if not self._is_heard:
            found = self._mentioned
            known |= {
                "mentioned_tools": found.tools,
                "mentioned_skills": found.skills,
                "mentioned_agents": found.agents,
            }
        return known


def _newest_request(view: View) -> Message | None:
    """Return the newest request of the user as it was written, without the marks of the guard; None if it is not shown."""
    place = view.place(view.facts.last_user)
    if place is None:
        return None
    parts = (shown.part for item in view.atoms[place].items for shown in item.shown)
    texts = (Text(guard.restore(part.text)) if isinstance(part, Text) else part for part in parts if part)
    return Message("user", tuple(texts))
