"""One call at a time: the turn of a session."""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from foveal.values.errors import SessionBusy


class SessionTurn:
    """Lets one call into a session, and refuses a second one, of another thread or from within the first.

        with turn.of("append"): …

    While a call waits for a model, it opens the session for appends of other threads: a user does not stop speaking because a
    summary is being written.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._window: threading.Lock | None = None
        """While a call waits for a model: held by the append of another thread."""
        self._owner = 0
        self._doing = ""
        self.catch_up: Callable[[], object] | None = None
        """What is to be done first in the next turn that needs the view."""
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called with the error that a call ends with."""

    def of(self, doing: str, *, is_append: bool = False, needs_view: bool = True) -> AbstractContextManager[None]:
        """Take the turn for this call; `SessionBusy` if another one has it. A view that is behind the log catches up first."""
        thread = threading.get_ident()
        if self._lock.acquire(blocking=False):
            self._owner, self._doing = thread, doing
            if self.catch_up is not None and needs_view:
                self._caught_up(self.catch_up)
            return self
        owner, window = self._owner, self._window
        if is_append and owner != thread and window is not None and window.acquire(blocking=False):
            return _released(window)
        names = {one.ident: one.name for one in threading.enumerate()}
        raise SessionBusy(self._session, doing, self._doing, "" if owner == thread else names.get(owner, str(owner)))

    def _caught_up(self, catch_up: Callable[[], object]) -> None:
        try:
            catch_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.catch_up = None

    @contextmanager
    def open_for_appends(self) -> Generator[None]:
        """Let other threads append until the block ends. For the call that has the turn."""
        self._window = window = threading.Lock()
        try:
            yield
        finally:
            window.acquire()  # waits for an append under way, and refuses all later ones
            self._window = None

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self.on_failure(error)
        finally:
            self._owner = 0
            self._lock.release()


@contextmanager
def _released(lock: threading.Lock) -> Generator[None]:
    try:
        yield
    finally:
        lock.release()
