"""Events of an open session: told to the host's listener and to `logging`, and read from the entries of its log.

The log is the record of the kept ones: `LogEvents` reads them from entries, for the session that writes them and for every
process that reads the log later. So a listener and a reader of the log are told the same.
"""

import logging
from collections.abc import Callable, Iterator

import msgspec

from foveal.session import own_tools
from foveal.values.entry import (
    Body,
    Entry,
    Fold,
    LimitForgotten,
    Message,
    Overflow,
    RangeFold,
    Rewind,
    Setup,
    ToolCall,
    Usage,
)
from foveal.values.errors import ContextOverflow, LeaseLost, OverBudget
from foveal.values.events import (
    CODE,
    KINDS,
    Checkpointed,
    CompactionEnded,
    Event,
    LimitLearned,
    LimitLifted,
    Listener,
    ModelChanged,
    NoteRemembered,
    Pressure,
    PressureChanged,
    PressureLevel,
    PromptBuilt,
    PromptRefused,
    Recalled,
    Rewound,
    SessionLost,
    UsageReported,
    tell,
)
from foveal.values.own_tools import CHECKPOINT_TOOL, RECALL_TOOL, REMEMBER_TOOL, SEARCH_TOOL
from foveal.values.prompt import Prompt

logger = logging.getLogger("foveal.session")
logging.getLogger("foveal").addHandler(logging.NullHandler())  # quiet unless the host asks: no last resort on stderr


_OWN_CALLS: dict[str, Callable[[str], Event]] = {
    RECALL_TOOL: lambda session: Recalled(session, RECALL_TOOL),
    SEARCH_TOOL: lambda session: Recalled(session, SEARCH_TOOL),
    CHECKPOINT_TOOL: Checkpointed,
    REMEMBER_TOOL: NoteRemembered,
}


class LogEvents:
    """Reads the kept events of one session from the entries of its log, in their order."""

    def __init__(self, session: str, setup: Setup | None = None) -> None:
        self._session, self._setup = session, setup

    def read(self, entry: Entry, *, is_applied: bool = True) -> Iterator[Event]:
        """Yield the events that an entry tells of; `is_applied` says whether a limit that it teaches holds."""
        session, body = self._session, entry.body
        match body:
            case Usage(model, tokens, output, read, written, estimated, reasoning):
                yield UsageReported(session, model, tokens, output, read, written, estimated, reasoning)
            case Fold():
                yield CompactionEnded(session, body.reason, body.before, body.after, body.rebilled, _author(body), None)
            case Overflow(model, limit, because):
                yield LimitLearned(session, model, limit, because, is_applied)
            case LimitForgotten(model):
                yield LimitLifted(session, model)
            case Rewind(reason):
                yield Rewound(session, entry.parent, reason)
            case Setup(model):
                before, self._setup = self._setup, body
                if before is not None and before.model != model:
                    yield ModelChanged(session, before.model, model, body.limit)
            case _:
                yield from self._own_calls(body)

    def _own_calls(self, body: Body) -> Iterator[Event]:
        """Yield the events of a reply's calls to Foveal's own tools."""
        calls = [part.name for part in body.parts if isinstance(part, ToolCall)] if isinstance(body, Message) else []
        ours = own_tools.ours(self._setup.tools if self._setup else "[]") if calls else ()
        for name in calls:
            if name in ours:
                yield _OWN_CALLS[name](self._session)


class SessionEvents:
    """Tells the events of one open session to its listener and to the logger `foveal.session`."""

    def __init__(self, session: str, listener: Listener, setup: Setup | None) -> None:
        self._session, self._listener = session, listener
        self._log = LogEvents(session, setup)
        self._level: PressureLevel = "none"

    def tell(self, event: Event) -> None:
        """Tell an event that has just happened."""
        level = KINDS[type(event)].log_level
        if logger.isEnabledFor(level):
            logger.log(level, "%s", event)
        tell(self._listener, event)

    def entry(self, entry: Entry, *, is_applied: bool) -> None:
        """Tell the events of an entry that is now in the log. The end of a fold was told by its writer."""
        for event in self._log.read(entry, is_applied=is_applied):
            if not isinstance(event, CompactionEnded):
                self.tell(event)

    def prompt(self, prompt: Prompt, fold: Fold | None, pressure: Pressure) -> None:
        """Tell that a prompt was built, and the level of pressure if it is another one now."""
        setup, level = prompt.setup, pressure.level
        made = PromptBuilt(self._session, prompt.call, setup.model, prompt.tokens, setup.limit, setup.dialect)
        self.tell(msgspec.structs.replace(made, fold=fold.reason) if fold else made)
        if level != self._level:
            before, self._level = self._level, level
            self.tell(PressureChanged(self._session, level, before, pressure.tokens, pressure.limit))

    def failure(self, error: BaseException) -> None:
        """Tell that a call of the session failed, if the failure is one of the session and not of its caller."""
        if isinstance(error, LeaseLost):
            self.tell(SessionLost(self._session, str(error)))
        elif isinstance(error, OverBudget | ContextOverflow):
            self.tell(PromptRefused(self._session, str(error)))


def _author(fold: Fold) -> str:
    """Return the author of a fold's prose."""
    return next((item.author for item in fold.items if isinstance(item, RangeFold) and item.author), CODE)
