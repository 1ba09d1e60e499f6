"""The history of a stored session: every call with its lines, folds, bill and prefix moves, from one pass over its log.

Consecutive prompts share nearly all of their lines. A call therefore holds only the lines that differ from the call before it,
and how many lines the two share; `SessionHistory.trace` puts the lines of a call together. So the history of a session grows
with its log, and not with the sum of all its prompts.
"""

from copy import copy

import msgspec

from foveal.analysis.inspect.calls import StoredCall, stored_calls
from foveal.analysis.inspect.cost import CallCost, CostBook, CostTotals, FoldCost
from foveal.analysis.inspect.next_fold import NextFold, next_fold_of
from foveal.analysis.inspect.prefix_moves import PrefixMoves, priced
from foveal.analysis.inspect.stored_session import known_session
from foveal.analysis.replay.bills import equal_length
from foveal.session.rebuild import setup_at
from foveal.stores.port import Store
from foveal.values.entry import Fold
from foveal.values.errors import NotFound
from foveal.values.shown import Atom
from foveal.values.trace import PROMPT_TOKENS, Trace, TraceLine, block_lines, lines_of


class CallHistory(msgspec.Struct, frozen=True):
    """One call: its bill, the changes to its prefix, and the lines that differ from the call before it."""

    cost: CallCost
    prefix: PrefixMoves
    dialect: str
    limit: int
    kept_lines: int
    """How many leading lines are the same as in the call before."""
    new_lines: tuple[TraceLine, ...]
    """All lines after those."""
    tools_tokens: int
    framing_tokens: int
    fold: Fold | None
    """The newest fold that was made for this call, without its items."""


class SessionHistory(msgspec.Struct, frozen=True):
    """All calls of a session since its first prompt. The last one has no reply yet."""

    session: str
    calls: tuple[CallHistory, ...]
    folds: tuple[FoldCost, ...]
    total: CostTotals
    next_fold: NextFold | None
    """How near the next fold is; None if one was made for the last call."""

    def trace(self, call: int) -> Trace:
        """Return the trace of a call's prompt; raise `NotFound` if the session has no prompt for it."""
        first = self.calls[0].cost.call
        place = call - first
        if not 0 <= place < len(self.calls):
            made = f"{first} to {self.calls[-1].cost.call}"
            raise NotFound(f"session {self.session!r} has prompts for the calls {made}; there is none for call {call}")
        one = self.calls[place]
        return Trace(
            session=self.session,
            call=call,
            model=one.cost.model,
            dialect=one.dialect,
            limit=one.limit,
            lines=self._lines(place),
            tools_tokens=one.tools_tokens,
            framing_tokens=one.framing_tokens,
            fold=one.fold,
        )

    def _lines(self, place: int) -> tuple[TraceLine, ...]:
        pieces, wanted = list[tuple[TraceLine, ...]](), None
        while wanted is None or wanted:
            one = self.calls[place]
            kept = one.kept_lines
            pieces.append(one.new_lines if wanted is None else one.new_lines[: max(0, wanted - kept)])
            wanted = kept if wanted is None else min(wanted, kept)
            place -= 1
        return tuple(line for piece in reversed(pieces) for line in piece)


class HistoryBook:
    """The history of a session so far. Enter each of its stored calls in order; readers of more than a history share the pass."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self._cost, self._lines = CostBook(), _Lines()
        self._calls = list[CallHistory]()
        self._near: NextFold | None = None

    def __copy__(self) -> "HistoryBook":
        """Return a book for a call that may yet change."""
        other = HistoryBook(self._store, self._session)
        other._cost, other._lines, other._calls = copy(self._cost), copy(self._lines), self._calls[:]
        return other

    def enter(self, call: StoredCall) -> CallHistory:
        self._cost.enter(call)
        entered = _call(call, self._cost.calls[-1], self._lines)
        self._calls.append(entered)
        if call.reply_tokens is None and call.sent and not call.unfolded:
            self._near = next_fold_of(self._store, call)
        return entered

    def history(self) -> SessionHistory:
        return SessionHistory(self._session, tuple(self._calls), self._cost.folds(), self._cost.totals(), self._near)


def history(store: Store, session: str) -> SessionHistory:
    """Return the history of a stored session, from one pass over its log."""
    book = HistoryBook(store, session)
    for call in stored_calls(store, session):
        book.enter(call)
    return book.history()


def prefix_moves(store: Store, session: str, call: int | None = None) -> PrefixMoves:
    """Return the changes to the prefix between a call and the one before it; of the next call, if `call` is None."""
    setup_at(store, known_session(store, session), call)
    calls = stored_calls(store, session)
    found = [one for one in map(_priced_moves, calls) if call is None or one.call == call][-1]
    if found.call > 1:
        setup_at(store, session, found.call - 1)  # raises `NotFound` if the call before had no prompt
    return found


def _priced_moves(call: StoredCall) -> PrefixMoves:
    return priced(call.prompt, call.moves, call.model_setup.facts)


def _call(call: StoredCall, cost: CallCost, lines: "_Lines") -> CallHistory:
    prompt, view = call.prompt, call.view
    kept, new = lines.advance(prompt.atoms)
    context = block_lines(view.facts.context.blocks if view.facts.context else ())
    return CallHistory(
        cost=cost,
        prefix=_priced_moves(call),
        dialect=prompt.setup.dialect,
        limit=prompt.setup.limit,
        kept_lines=kept,
        new_lines=(*new, *context),
        tools_tokens=prompt.setup.tools_tokens,
        framing_tokens=PROMPT_TOKENS + view.size.tokens - lines.tokens,
        fold=prompt.decided,
    )


class _Lines:
    """The lines of the newest prompt's atoms, and how many tokens they take together."""

    def __init__(self) -> None:
        self._atoms: tuple[Atom, ...] = ()
        self._sums: list[tuple[int, int]] = [(0, 0)]
        """Lines and tokens of all atoms before each place."""

    def __copy__(self) -> "_Lines":
        other = _Lines()
        other._atoms, other._sums = self._atoms, self._sums[:]
        return other

    @property
    def tokens(self) -> int:
        return self._sums[-1][1]

    def advance(self, atoms: tuple[Atom, ...]) -> tuple[int, list[TraceLine]]:
        """Take the atoms of the next prompt; return how many lines stay the same, and the lines after those."""
        same = equal_length(self._atoms, atoms)
        del self._sums[same + 1 :]
        new = list[TraceLine]()
        for atom in atoms[same:]:
            found, (lines, tokens) = list(lines_of((atom,))), self._sums[-1]
            self._sums.append((lines + len(found), tokens + sum(line.tokens for line in found)))
            new += found
        self._atoms = atoms
        return self._sums[same][0], new
