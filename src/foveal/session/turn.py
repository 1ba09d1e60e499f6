"""One call at a time: the turn of a session."""

import threading
from types import TracebackType

from foveal.values.errors import SessionBusy


class SessionTurn:
    """Lets one call into a session, and refuses a second one, of another thread or from within the first.

    with turn.of("append"): …
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self._doing = ""

    def of(self, doing: str) -> "SessionTurn":
        """Take the turn for this call; `SessionBusy` if another one has it."""
        if not self._lock.acquire(blocking=False):
            owner = self._owner or threading.main_thread()
            raise SessionBusy(
                self._session, doing, self._doing, "" if owner is threading.current_thread() else owner.name
            )
        self._owner, self._doing = threading.current_thread(), doing
        return self

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self._lock.release()
