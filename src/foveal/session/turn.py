"""One call at a time: the turn of a session."""

import threading
from collections.abc import Generator
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
        self._appends = threading.Lock()
        """Held together with the turn, except while a call waits for a model."""
        self._owner: threading.Thread | None = None
        self._doing = ""

    def of(self, doing: str, *, is_append: bool = False) -> AbstractContextManager[None]:
        """Take the turn for this call; `SessionBusy` if another one has it."""
        thread = threading.current_thread()
        if self._lock.acquire(blocking=False):
            self._appends.acquire()
            self._owner, self._doing = thread, doing
            return self
        owner = self._owner or threading.main_thread()
        if is_append and owner is not thread and self._appends.acquire(blocking=False):
            return _released(self._appends)
        raise SessionBusy(self._session, doing, self._doing, "" if owner is thread else owner.name)

    @contextmanager
    def open_for_appends(self) -> Generator[None]:
        """Let other threads append until the block ends. For the call that has the turn."""
        self._appends.release()
        try:
            yield
        finally:
            self._appends.acquire()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self._appends.release()
        self._lock.release()


@contextmanager
def _released(lock: threading.Lock) -> Generator[None]:
    try:
        yield
    finally:
        lock.release()
