"""Every error that Foveal raises on purpose, as one tree.

    FovealError
    ├── BadInput                the caller gave something that cannot be used
    │   ├── BadEntry            an entry that a log cannot hold
    │   ├── BadPolicy           a policy file or option that is not understood
    │   ├── BadRecording        a recorded session that is not understood (file and line)
    │   └── NotFound            no such session, entry, call or reference
    ├── OverBudget              the mandatory content alone does not fit
    ├── ContextOverflow         the provider refuses even what was folded further, again and again
    ├── ModelFailed             no model of an agent has answered
    ├── SummaryFailed           the summariser failed, and the policy does not let code replace it
    ├── Unrepresentable         the log holds something that the dialect cannot say
    ├── InvalidPrompt           our own doing: a rendered prompt broke a provider's rule
    ├── SessionBusy             a call came while another one was inside the same session
    ├── MissingExtra            an optional dependency is not installed
    └── StoreError              the log could not be kept or read
        ├── StoreFull           no space; nothing acknowledged is lost
        ├── StoreBusy           another process held the file for too long
        ├── StoreReadOnly       this process has no right to write the store
        ├── StoreFailed         an I/O error; the handle must be reopened
        ├── StoreUnavailable    the database cannot be reached; whether the last append was kept is unknown
        ├── TailLost            the store has fewer entries than it acknowledged
        ├── StoreCorrupt        damage, with its place
        │   └── ListDamaged     sessions of a list are damaged; it has the others
        ├── KeyMissing          something is encrypted under a key that is not at hand
        ├── SchemaTooNew        written by a newer Foveal
        ├── SessionHeld         another writer has the session
        ├── SessionChanged      a session is no longer as its deleter has seen it
        ├── IndexLeft           sessions are deleted, and words of them may be left in a search index
        └── LeaseLost           this writer lost the session to a newer one

Each message says what happened, whose doing it is and what to do next.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class FovealError(Exception):
    """Root of all errors raised by Foveal."""


class BadInput(FovealError, ValueError):
    """The caller gave something that cannot be used."""


class BadEntry(BadInput):
    """An entry that a log cannot hold."""


class BadPolicy(BadInput):
    """A policy file or option that is not understood."""


class BadRecording(BadInput):
    """A recorded session that is not understood."""

    def __init__(self, file: str, line: int | None, what: str) -> None:
        self.file, self.line, self.what = file, line, what
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {what}")


class NotFound(BadInput, LookupError):
    """No such session, entry, call or reference."""


class OverBudget(FovealError):
    """The content that may not be folded is larger than the budget allows.

    `parts` maps each mandatory part to its size in the unit that does not fit (`unit`).
    """

    def __init__(self, limit: int, parts: Mapping[str, int], unit: str = "tokens", advice: str = "") -> None:
        self.limit, self.parts, self.unit = limit, dict(parts), unit
        self.needed = sum(self.parts.values())
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.parts.items() if size)
        hint = advice or "Raise the limit, unpin entries, shorten the system prompt or offer fewer tools."
        super().__init__(f"{self.needed:,} {unit} are mandatory ({sizes}); the limit is {limit:,}. {hint}")


class ContextOverflow(FovealError):
    """The provider refused prompts of falling size for their length."""

    def __init__(self, model: str, attempts: int, tokens: int, said: str) -> None:
        self.model, self.attempts, self.tokens = model, attempts, tokens
        super().__init__(
            f"{model} refused {attempts} prompts in a row for their length, the last of {tokens:,} tokens by our count "
            f"({said}). Its real window may be smaller than the table says: set max_context_tokens, "
            "or compact.recoveries to try further."
        )


class ModelFailed(FovealError):
    """No model of an agent has answered. `fault` is the class of the last error."""

    def __init__(self, model: str, fault: str, said: str, advice: str) -> None:
        self.model, self.fault, self.said = model, fault, said
        stop = "" if said.endswith((".", "!", "?", "…")) else "."
        super().__init__(f"{model} did not answer ({fault}): {said}{stop} {advice}")


class SummaryFailed(FovealError):
    """The summariser failed and `compact.on_failure` is `raise`. Nothing was folded; the log is as it was."""

    def __init__(self, author: str, reason: str, detail: str) -> None:
        self.author, self.reason, self.detail = author, reason, detail
        super().__init__(
            f"the summariser {author} failed ({reason}): {detail} Nothing was folded. "
            'With compact.on_failure = "code" the engine\'s own summary takes its place.'
        )


class Unrepresentable(FovealError):
    """The log holds something that the dialect cannot say."""

    def __init__(self, dialect: str, entry: str, what: str) -> None:
        self.dialect, self.entry, self.what = dialect, entry, what
        super().__init__(f"The {dialect} dialect cannot send entry {entry}: {what}.")


class InvalidPrompt(FovealError):
    """A rendered prompt broke a provider's rule: a defect of Foveal, stopped before the call."""

    def __init__(self, dialect: str, problems: Sequence[object]) -> None:
        self.dialect, self.problems = dialect, tuple(problems)
        shown = "; ".join(str(problem) for problem in self.problems[:3])
        super().__init__(f"The {dialect} prompt breaks {len(self.problems)} rule(s): {shown}. Please report this.")


class SessionBusy(FovealError):
    """A call came while another one was inside the same session: of another thread, or the one that made it."""

    def __init__(self, session: str, wanted: str, running: str, thread: str) -> None:
        self.session, self.wanted, self.running, self.thread = session, wanted, running, thread
        where = f"of thread {thread!r}" if thread else "of this thread"
        why = (
            "A session serves one thread at a time: give each its own session, or a lock around its calls."
            if thread
            else "A listener, renderer, source or summariser of the session has called it: let it note what it wants, "
            "and make the call after the other has returned."
        )
        super().__init__(
            f"session {session!r}: {wanted} was called while {running} {where} was inside it; nothing was done. {why}"
        )


class MissingExtra(FovealError, ImportError):
    """An optional dependency is not installed, or cannot be loaded for a reason."""

    def __init__(self, feature: str, extra: str, reason: str = "") -> None:
        what = f"an optional dependency, which cannot be loaded ({reason})" if reason else "an optional dependency"
        super().__init__(f"{feature} needs {what}. Install it in the checkout of Foveal: pip install '.[{extra}]'")


class StoreError(FovealError):
    """The log could not be kept or read."""


class StoreFull(StoreError):
    """No space is left; nothing acknowledged is lost, and reading still works."""


class StoreBusy(StoreError):
    """Another process held the store for longer than the waiting time."""


class StoreReadOnly(StoreError):
    """This process has no right to write the store; nothing was written, and reading still works."""


class StoreFailed(StoreError):
    """An I/O error. The handle is no longer trusted; open the store again."""


class StoreUnavailable(StoreError):
    """The database cannot be reached. An append under way may have been kept or not: give the same entries again, with the
    same ids."""


class TailLost(StoreError):
    """The store has fewer entries of a session than it acknowledged to this writer: it went on without its newest commits, as
    a replica does that was behind when it took over."""

    def __init__(self, session: str, kept: int, acknowledged: int) -> None:
        self.session, self.kept, self.acknowledged = session, kept, acknowledged
        lost = (
            f"the last {acknowledged - kept:,}"
            if kept < acknowledged
            else "the newest, and others stand in their place"
        )
        super().__init__(
            f"session {session}: the store has {kept:,} entries, and {acknowledged:,} were acknowledged to this writer: it lost "
            f"{lost} (a replica that was behind took over, or an old copy was put in place). Nothing "
            "of this append was written, and the session was released. Open it again, and append the lost entries under "
            "their ids if they are still at hand."
        )


class StoreCorrupt(StoreError):
    """The store holds bytes that it did not write."""

    def __init__(self, place: str, what: str, path: str = "FILE") -> None:
        self.place, self.what, self.path = place, what, path
        remedy = (
            f"Run `foveal store doctor '{path}'` to list the damage; `foveal store migrate` copies the sessions that are whole."
            if "://" in path
            else f"Run `foveal doctor {path}` to list the damage and salvage the rest."
        )
        super().__init__(f"{place}: {what}. {remedy}")


class ListDamaged(StoreCorrupt):
    """Sessions of a list are damaged. `damage` tells how, by their names; `cards` are the others, and with them, without labels,
    those of which only the labels are damaged."""

    def __init__(self, damage: Mapping[str, StoreCorrupt], cards: Sequence[Any]) -> None:
        self.damage, self.cards = dict(damage), tuple(cards)
        first = next(iter(self.damage.values()))
        others = f" (and {len(self.damage) - 1:,} more sessions are damaged)" if len(self.damage) > 1 else ""
        super().__init__(first.place, f"{first.what}{others}", first.path)


class KeyMissing(StoreError):
    """Something is encrypted under a key that is not at hand: it is there, and cannot be read."""


class SchemaTooNew(StoreError):
    """The store was written by a newer Foveal."""


class SessionHeld(StoreError):
    """Another live writer has the session. `sessions` are all that are held, of those that were asked for."""

    def __init__(self, text: str, sessions: Sequence[str] = ()) -> None:
        self.sessions = tuple(sessions)
        super().__init__(text)


class SessionChanged(StoreError):
    """Sessions that were to be deleted as they were seen have changed: one has other entries, or a child that was not seen."""

    def __init__(self, sessions: Sequence[str]) -> None:
        self.sessions = tuple(sessions)
        super().__init__(
            f"session {self.sessions[0]!r} was written, or given a child, while it was to be deleted; nothing was deleted. "
            "Look at it again."
        )


class IndexLeft(StoreError):
    """Sessions were deleted, with everything but words in search indexes that could not be removed. `tombstones` are the proofs
    of their deletion; none after a vacuum, which deletes no session."""

    def __init__(self, files: Mapping[str, Exception], place: str, tombstones: Sequence[Any] = ()) -> None:
        self.files, self.tombstones = tuple(files), tuple(tombstones)
        first, error = next(iter(files.items()))
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        others = f" and {len(files) - 1:,} others" if len(files) > 1 else ""
        super().__init__(
            f"words of deleted sessions may be in search indexes that could not be removed: {first}{others} "
            f"({reason}). Everything else of them is gone. Give this user the right to change that folder "
            f"and run `foveal store vacuum {place}`, or remove the files: an index is made again."
        )


class LeaseLost(StoreError):
    """This writer lost the session to a newer one; nothing it was told was kept is lost."""
