"""The side context of one session: content that is in its prompts and not in its conversation.

Fences, reminders, instructions, tools on demand, skills and files. A session always has one; without options and environment
it holds nothing, and costs nothing but a few comparisons a prompt.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec

from foveal.context import files, reminders
from foveal.context.environment import NO_ENVIRONMENT, Environment
from foveal.context.fence_placement import PromptFences, next_turn
from foveal.context.fences import STARTED, FenceKind
from foveal.context.frame import SessionFrame
from foveal.context.injection import NOTHING, Injection, NextCall
from foveal.context.mentions import KnownNames, Mentioned, mentioned
from foveal.context.options import ContextOptions
from foveal.context.start_time import started, zone_of
from foveal.models.counters import ModelCounter
from foveal.project.view import ATTACHED, View
from foveal.stores.port import Store
from foveal.stores.rows import checked_message
from foveal.text import guard
from foveal.text.user_words import spoken
from foveal.values.blocks import marked
from foveal.values.entry import Body, Entry, Fence, Message, Text, ToolCall, result
from foveal.values.errors import BadInput, FovealError
from foveal.values.events import Pressure
from foveal.values.shown import short_ref

if TYPE_CHECKING:
    from foveal.context.files.attachment import Attachment


class SessionAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a session that its side context reads, and the function by which it appends."""

    name: str
    store: Store
    counter: ModelCounter
    guard: bool
    """Whether content of files is neutralised."""
    allowed: frozenset[str] | None
    """The tools that a child session may be offered; None allows all."""
    view: Callable[[], View]
    new_id: Callable[[], str]
    append: Callable[[Body, str, str | None], Entry]
    """Writes an entry of this body and id; the author is the session's own if none is given."""


class SideContext:
    """Content shown next to the conversation of one session, kept up to date with it."""

    def __init__(self, options: ContextOptions, environment: Environment | None, session: SessionAccess) -> None:
        self._environment, self._session = environment or NO_ENVIRONMENT, session
        self._count, self._frame = session.counter.counter.count, SessionFrame()
        self._fences = PromptFences(
            options.fences, self._environment.formatters, count=self._count, wrap=self._frame.wrap
        )
        self._reminders = (
            reminders.SessionReminders(options, self._environment.triggers, self._frame, self._count)
            if options.remind
            else None
        )
        self._sources = self._environment.sources(self._count, session.allowed)
        self._clock = options.clock
        if self._clock is not None:
            zone_of(self._clock)  # an unknown time zone is an error now, not in the first prompt
        self._mentioned = Mentioned()
        self.follow()

    def inject(self, kind: str, text: str, *, key: str | None = None, **attributes: str) -> Entry:
        """Put content beside the conversation, in a fence of a kind that the policy names. Blank text removes it."""
        return self._append(self._fences.fence(self._view, kind, text, key=key, attributes=attributes))

    def remind(self, text: str, name: str = "host") -> None:
        """Show this text in the next call only. Needs `remind` in the policy."""
        if self._reminders is None:
            raise BadInput("reminders are off, so that nobody would read this; set remind = true in the policy")
        self._reminders.remind(name, text)

    def attach(self, path: str | PathLike[str], *, name: str | None = None) -> "Attachment":
        """Give a file to the model: small text whole, larger ones by an outline that can be recalled, images scaled."""
        if self._environment.workspace is None:
            raise BadInput("this session has no workspace to keep files in; give it Environment(workspace=…)")
        session, counter = self._session, self._session.counter
        entry_id = session.new_id()
        file = files.attach(
            self._environment.workspace,
            path,
            provider_family=counter.family,
            count=self._count,
            ref=short_ref(entry_id),
            name=name,
        )
        message = files.message_of(file, session.store, guard=session.guard)
        session.append(checked_message(message), entry_id, ATTACHED)
        if self._reminders:
            self._reminders.add_upload(file.name, file.kind, file.size_bytes, short_ref(entry_id))
        for source in self._sources:
            self._add_news(source.attached(file.name, file.media_type))
        return file

    @property
    def mentioned(self) -> Mentioned:
        """Tools, skills, agents and files that the newest request mentions, and names that are unknown or ambiguous."""
        if self._follows:
            return self._mentioned
        return self._mentions_in(_newest_request(self._view)) or Mentioned()

    def fence_kind(self, name: str) -> FenceKind:
        """Return the kind of fence of this name; `BadInput` if there is none."""
        return self._fences.registry.kind(name)

    def follow(self) -> None:
        """Begin anew with the state of the session's view."""
        if not self._follows:
            return
        view = self._view
        if self._reminders:
            self._reminders.follow(view)
        self._mentioned = self._mentions_in(_newest_request(view)) or Mentioned()
        for source in self._sources:
            source.follow(view, self._mentioned)
        if view.last_user and view.place(view.last_user) == len(view.atoms) - 1:  # nobody has answered it yet
            self._add_mentions()

    def observe(self, place: int, entry: Entry) -> None:
        """Take an appended entry into account."""
        if not self._follows or not isinstance(entry.body, Message):
            return
        message = entry.body
        if self._reminders:
            self._reminders.observe(place, message)
        if entry.author == ATTACHED:  # the text of a file mentions nobody
            return
        if message.role != "user":
            for source in self._sources:
                source.observe(message)
        elif (found := self._mentions_in(message)) is not None:
            self._mentioned = found
            self._add_mentions()

    def tools(self, given: Sequence[Mapping[str, Any]], limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the host's tools and those of the sources; `limit` is the token limit of the prompt."""
        if not self._sources:
            return given
        return [*given, *(tool for source in self._sources for tool in source.tools(limit, self._mentioned))]

    def due_fences(self) -> Iterator[Fence]:
        """Yield the fences to append before the next prompt: texts of sources that are new or have changed."""
        view = self._view
        shown = {fence.kind: fence.text for fence in view.fences}
        for source in self._sources:
            self._add_news(source.news(view))
            for kind, text in source.fences(view):
                if text != shown.get(kind, ""):
                    yield self._fences.fence(view, kind, text, key="", attributes={})
        if self._clock is not None and view.first and not any(fence.kind == STARTED.name for fence in view.fences):
            text = started(self._began_ms, self._clock)
            yield self._fences.fence(view, STARTED.name, text, key="", attributes={})

    def injection(
        self, pressure: Pressure, next_call: NextCall, offered: frozenset[str], *, share: float = 1.0
    ) -> Injection:
        """Return the side context of the next prompt. Optional content takes at most this share of the room."""
        view = self._view
        if not view.fences and self._reminders is None:
            return NOTHING
        self._frame.begin(view.first)
        fences = self._fences.shown(view, pressure, share)
        if self._reminders is None:
            return Injection(marked(view.beside, fences.blocks), fences.lines, fences.tokens, fences.mandatory)
        said = self._reminders.shown(
            view,
            pressure=msgspec.structs.replace(pressure, tokens=pressure.tokens + fences.tokens),
            next_call=next_call,
            turn=next_turn(view),
            offered=offered,
            known={field: value for source in self._sources for field, value in source.situation.items()},
            has_room=share > 0,
        )
        return Injection(
            marked(view.beside, (*fences.blocks, *said.blocks)),
            (*fences.lines, *said.lines),
            fences.tokens + said.tokens,
            fences.mandatory,
        )

    def sent(self) -> None:
        """Note that a prompt was built."""
        if self._reminders:
            self._reminders.sent()

    def answer(self, call: ToolCall) -> Message | None:
        """Return the result of a call to a tool that finds tools or reads skills; None for other calls."""
        try:
            for source in self._sources:
                if answer := source.answer(call):
                    return answer
        except FovealError as error:
            return result(call.id, str(error), status="error")
        return None

    @property
    def _view(self) -> View:
        return self._session.view()

    @property
    def _follows(self) -> bool:
        """Whether anything here depends on the messages of the session."""
        return bool(self._sources or self._environment.agents or self._reminders)

    def _append(self, body: Body) -> Entry:
        return self._session.append(body, self._session.new_id(), None)

    @cached_property
    def _began_ms(self) -> int:
        """The time of the first entry of the log."""
        return next(iter(self._session.store.rows(self._session.name, upto=1))).time_ms

    def _mentions_in(self, message: Message | None) -> Mentioned | None:
        """Return the mentions of a user's message; None if it asks for nothing, so that the request before it still holds."""
        if message is None:
            return None
        texts = [spoken(part.text) for part in message.parts if isinstance(part, Text)]
        if not any(texts) and len(texts) == len(message.parts):
            return None
        text = "\n".join(texts)
        if "@" not in text and "#" not in text:
            return Mentioned()
        known = KnownNames(agents=self._environment.agents)
        for source in self._sources:
            known |= source.names(text)
        return mentioned(text, known)

    def _add_mentions(self) -> None:
        found = self._mentioned
        self._add_news(
            {
                "mentioned_tools": found.tools,
                "mentioned_skills": found.skills,
                "mentioned_agents": found.agents,
            }
        )

    def _add_news(self, news: Mapping[str, tuple[object, ...]]) -> None:
        if self._reminders:
            for field, values in news.items():
                self._reminders.add_news(field, *values)


def _newest_request(view: View) -> Message | None:
    """Return the newest request of the user as it was written, without the marks of the guard; None if it is not shown."""
    place = view.place(view.last_user) if view.last_user else None
    if place is None:
        return None
    parts = (shown.part for item in view.atoms[place].items for shown in item.shown)
    return Message(
        "user", tuple(Text(guard.restore(part.text)) if isinstance(part, Text) else part for part in parts if part)
    )
