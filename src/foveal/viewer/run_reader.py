"""The calls of one session under one policy for its page, read in one pass, and read on as the session grows."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy

import msgspec

from foveal.analysis.inspect.calls import CallReader, StoredCall
from foveal.analysis.inspect.history import HistoryBook
from foveal.analysis.replay.bills import RecordedBill, equal_length
from foveal.dialects.renderer import placed_blocks
from foveal.project.view import View
from foveal.text.display import visible
from foveal.values.entry import Block, Part, RedactedThinking, Thinking, ToolCall, ToolResult
from foveal.values.shown import SYNTHETIC_RESULT, Atom, Item
from foveal.values.trace import TraceLine, block_lines, lines_of
from foveal.viewer.document import PageCall, PageLine, PagePart, PageRun, PageShare
from foveal.viewer.session_log import MOST_PARTS, SessionLog

_KINDS: dict[type, str] = {
    Thinking: "thinking",
    RedactedThinking: "thinking",
    ToolCall: "tool call",
    ToolResult: "tool result",
}


class RunFacts(msgspec.Struct, frozen=True):
    """Facts about a run that are not in its log."""

    name: str
    recorded: Mapping[int, RecordedBill] = {}
    """The bills of the calls as they were recorded."""
    compacted: Collection[int] = ()
    """Calls before which the recording agent had compacted its own context."""
    refused: Collection[int] | None = None
    """Calls for which there was no prompt; None where that is not known."""
    notes: Sequence[str] = ()
    is_over: bool = False
    """Whether no next call will come."""


class RunReader:
    """Reads the calls of a session's log."""

    def __init__(self, log: SessionLog, facts: RunFacts) -> None:
        self._log, self._facts = log, facts
        self._reader = CallReader(log.store, log.session, facts.refused)
        self._book, self._lines = HistoryBook(log.store, log.session), _RunLines(log)
        self._calls = list[PageCall]()

    @property
    def has_unknown_renderers(self) -> bool:
        return self._reader.has_unknown_renderers

    def read(self) -> bool | None:
        """Read what is new; return whether there was anything, and None if it changes what was read: begin anew then."""
        entries = self._reader.take()
        if not entries:
            return None if entries is None else False
        self._log.read(entries)
        for call in self._reader.calls():
            self._calls.append(self._page_call(call, self._book, self._lines))
        return True

    def run(self) -> PageRun:
        """Return all calls so far; with the next one, if the session goes on."""
        book, calls, following = self._book, list(self._calls), self._reader.next_call()
        counter = following.model_setup.counter
        counted = f"{counter.counter.name}{'' if counter.exact else f'; {counter.error}'}"
        if not self._facts.is_over:
            book = copy(book)
            calls.append(self._page_call(following, book, copy(self._lines)))
        history = book.history()
        return PageRun(
            name=visible(self._facts.name),
            calls=tuple(calls),
            lines=tuple(self._lines.lines),
            folds=history.folds,
            total=history.total,
            next_fold=history.next_fold,
            counted=visible(counted),
            notes=tuple(map(visible, self._facts.notes)),
        )

    def _page_call(self, call: StoredCall, book: HistoryBook, run_lines: "_RunLines") -> PageCall:
        entered, (kept, lines) = book.enter(call), run_lines.advance(call)
        cost, prefix = entered.cost, entered.prefix
        return PageCall(
            call=cost.call,
            model=visible(cost.model),
            limit=entered.limit,
            kept=kept,
            lines=lines,
            tools=entered.tools_tokens,
            framing=entered.framing_tokens,
            sent=cost.sent,
            tokens=call.prompt.tokens,
            whole=cost.everything,
            fits_whole=cost.is_sendable_whole,
            output=cost.output_tokens,
            output_usd=cost.output_usd,
            is_answered=cost.is_answered,
            price_read=cost.price_read,
            price_write=cost.price_write,
            is_cold=call.is_cold,
            folds=cost.folds,
            moves=tuple(msgspec.structs.replace(one, what=visible(one.what)) for one in prefix.movers),
            moved=prefix.tokens,
            reported=cost.reported,
            recorded=self._facts.recorded.get(cost.call),
            is_compacted=cost.call in self._facts.compacted,
            time_ms=call.time_ms,
        )


class _RunLines:
    """The lines of all calls of a run, each kept once."""

    def __init__(self, log: SessionLog) -> None:
        self.lines: list[PageLine] = []
        self._log = log
        self._numbers: dict[PageLine, int] = {}
        self._atoms: tuple[Atom, ...] = ()
        """The atoms of the newest prompt."""
        self._shown: list[int] = []
        """The numbers of their lines."""
        self._starts = [0]
        """Where the lines of each atom begin, and where those of the last one end."""
        self._before: tuple[int, ...] = ()

    def __copy__(self) -> "_RunLines":
        """Return the state for a call that may yet change. Its lines are kept with those of all others."""
        other = object.__new__(_RunLines)
        other.__dict__ = {**self.__dict__, "_shown": self._shown[:], "_starts": self._starts[:]}
        return other

    def advance(self, call: StoredCall) -> tuple[int, tuple[int, ...]]:
        """Take the next call; return how many leading lines stay the same, and the numbers of the lines after those."""
        atoms = call.prompt.atoms
        same = equal_length(self._atoms, atoms)
        del self._shown[self._starts[same] :], self._starts[same + 1 :]
        for atom in atoms[same:]:
            self._shown += [self._number(line) for line in self._of_atom(atom)]
            self._starts.append(len(self._shown))
        self._atoms = atoms
        now = tuple(self._with_blocks(call.view))
        kept = equal_length(self._before, now)
        self._before = now
        return kept, now[kept:]

    def _with_blocks(self, view: View) -> list[int]:
        """Return the numbers of all lines in the order in which they are sent, blocks beside the conversation among them."""
        blocks = view.facts.context.blocks if view.facts.context else ()
        if not blocks:
            return self._shown
        placed = placed_blocks(view, blocks)
        at = {place: self._starts[place] for place, atom in enumerate(self._atoms) if atom.first in placed}
        lead = next((place for place, atom in enumerate(self._atoms) if atom.kind != "system"), len(self._atoms))
        found, done = list[int](), 0
        for place in sorted({lead, *at}):
            found += self._shown[done : self._starts[place]]
            done = self._starts[place]
            if place == lead:
                found += self._of_blocks(block for block in blocks if block.placement == "after_system")
            if place in at:
                before, after = placed[self._atoms[place].first]
                found += self._of_blocks(before)
                found += self._shown[done : self._starts[place + 1]]
                found += self._of_blocks(after)
                done = self._starts[place + 1]
        found += self._shown[done:]
        return [*found, *self._of_blocks(block for block in blocks if block.placement == "tail")]

    def _number(self, line: PageLine) -> int:
        number = self._numbers.setdefault(line, len(self.lines))
        if number == len(self.lines):
            self.lines.append(line)
        return number

    def _of_atom(self, atom: Atom) -> Iterator[PageLine]:
        lines = iter(list(lines_of((atom,))))
        if gap := atom.gap:
            line, log = next(lines), self._log
            first, last = log.place(gap.first), log.last_place(gap.newest[1])
            part = PagePart(log.words.number("stand-in"), log.words.number(gap.level), log.texts.number(gap.text))
            yield self._line(line, "range", (first, max(first, last)), "summary" if gap.leads else "covered", (part,))
        for item, line in zip(atom.items, lines, strict=True):
            yield self._of_item(atom, item, line)

    def _of_item(self, atom: Atom, item: Item, line: TraceLine) -> PageLine:
        log, place = self._log, self._log.place(item.id)
        parts = log.parts(item.role, [(shown.part, shown.level) for shown in item.shown])
        if item is atom.items[0] and None in atom.answers:
            title, level = log.words.number("in place of a result that never came"), log.words.number("full")
            parts = (*parts, PagePart(title, level, log.texts.number(SYNTHETIC_RESULT)))
        shares = Counter[tuple[str, str]]()
        for shown in item.shown:
            shares[_kind(item.role, shown.part), shown.level] += shown.size.tokens
        first = next(iter(shares), (item.role, "full"))
        shares[first] += line.tokens - shares.total()
        largest = max(item.shown, key=lambda shown: shown.raw_tokens).level if item.shown else "hidden"
        return PageLine(
            kind="entry",
            first=place,
            last=place,
            name=log.words.number(log.name(item.role, [shown.part for shown in item.shown])),
            shown=log.words.number(line.shown),
            level=log.words.number(largest),
            policy=log.words.number(line.policy),
            because=log.words.number(line.because),
            tokens=line.tokens,
            raw=line.raw_tokens,
            shares=tuple(
                PageShare(log.words.number(kind), log.words.number(level), tokens)
                for (kind, level), tokens in shares.items()
                if tokens
            ),
            parts=None if parts == log.entries[place].parts else parts,
            left_out=max(0, len(item.shown) - MOST_PARTS),
        )

    def _of_blocks(self, blocks: Iterator[Block] | Sequence[Block]) -> Iterator[int]:
        words = self._log.words
        for block in blocks:
            part = PagePart(
                words.number(f"{block.kind}, {block.role}"), words.number("full"), self._log.texts.number(block.text)
            )
            lines = list(block_lines((block,)))
            for line in lines:
                yield self._number(self._line(line, block.kind, (-1, -1), block.kind, (part,)))

    def _line(
        self, line: TraceLine, kind: str, places: tuple[int, int], share: str, parts: tuple[PagePart, ...]
    ) -> PageLine:
        words = self._log.words
        level = words.number(line.shown)
        return PageLine(
            kind=kind,
            first=places[0],
            last=places[1],
            name=words.number(line.entry),
            shown=level,
            level=level,
            policy=words.number(line.policy),
            because=words.number(line.because),
            tokens=line.tokens,
            raw=line.raw_tokens,
            shares=(PageShare(words.number(share), level, line.tokens),) if line.tokens else (),
            parts=parts,
            entries=line.entries,
        )


def _kind(role: str, part: Part | None) -> str:
    return _KINDS.get(type(part), "tool result" if role == "tool" else role)
