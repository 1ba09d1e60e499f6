"""Fences, reminders and surroundings of one session, as one: what the model is shown beside the conversation."""

from collections.abc import Callable, Iterator

from foveal.context.environment import NOWHERE, STARTED, Environment, EnvironmentState
from foveal.context.injector import Injector
from foveal.context.mentions import Mentioned
from foveal.context.options import ContextOptions
from foveal.context.port import Host, Injection, Tools
from foveal.context.start_time import started, zone_of
from foveal.project.view import View
from foveal.values.entry import ATTACHED, Entry, Fence, Message, ToolCall
from foveal.values.events import Pressure


class SideContext:
    """A conversation with something beside it."""

    def __init__(
        self,
        options: ContextOptions,
        surroundings: Environment | None,
        count: Callable[[str], int],
        *,
        allowed: frozenset[str] | None,
        began_ms: Callable[[], int],
    ) -> None:
        given = surroundings or NOWHERE
        self.injector = Injector(options, count, given.triggers, formatters=given.formatters)
        self.around = EnvironmentState(given, count, allowed)
        self._clock, self._began_ms = options.clock, began_ms
        if self._clock is not None:
            zone_of(self._clock)  # an unknown one is told now, and not by the first prompt

    def follow(self, view: View) -> None:
        self.injector.follow(view)
        self._hear(self.around.follow(view))

    def heard(self, seq: int, entry: Entry) -> None:
        if isinstance(entry.body, Message):
            self.injector.heard(seq, entry.body)
            if entry.author != ATTACHED:  # a file can mention whatever it likes
                self._hear(self.around.heard(entry.body))

    def tools(self, given: Tools, limit: int) -> Tools:
        return self.around.tools(given, limit)

    def due(self, view: View) -> Iterator[Fence]:
        if news := self.around.news(view):
            self.injector.tell("new_instructions", *news)
        for kind, text in self.around.put(view):
            yield self.injector.fence(view, kind, text, key="", attributes={})
        facts = view.facts
        if self._clock is not None and facts.first and not any(fence.kind == STARTED.name for fence in facts.fences):
            began = started(self._began_ms(), self._clock)
            yield self.injector.fence(view, STARTED.name, began, key="", attributes={})

    def beside(self, view: View, pressure: Pressure, host: Host, offered: frozenset[str], *, room: float) -> Injection:
        self.injector.active_skill = self.around.active_skill
        return self.injector.beside(view, pressure, host, offered, room=room)

    def answer(self, call: ToolCall) -> Message | None:
        return self.around.answer(call)

    def sent(self) -> None:
        self.injector.sent()

    def _hear(self, said: Mentioned | None) -> None:
        """What the user mentions is told to the next call."""
        for field in ("tools", "skills", "agents") if said else ():
            if names := getattr(said, field):
                self.injector.tell(f"mentioned_{field}", *names)
