"""From stored sessions and recordings to the data of a page, in one pass over each log."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from foveal.analysis.inspect.calls import StoredCall, stored_calls
from foveal.analysis.inspect.history import CallHistory, HistoryBook
from foveal.analysis.inspect.part_texts import part_texts
from foveal.analysis.inspect.stored_session import branch_of, known_session, tool_name
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.replay.bills import RecordedBill, equal_length
from foveal.analysis.replay.replay import replay
from foveal.dialects.renderer import placed_blocks
from foveal.models.counters import ModelCounter
from foveal.project.view import View
from foveal.session.own_tools import ours
from foveal.session.policy import Policy
from foveal.stores import MemoryStore
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Store
from foveal.text.display import visible
from foveal.values.entry import Block, Message, Part, RedactedThinking, Setup, Thinking, ToolCall, ToolResult
from foveal.values.errors import NotFound
from foveal.values.own_tools import RECALL_TOOL
from foveal.values.shown import SYNTHETIC_RESULT, Atom, Item, entry_ref
from foveal.values.trace import TraceLine, block_lines, lines_of
from foveal.viewer.document import (
    PageCall,
    PageEntry,
    PageLine,
    PagePart,
    PageRecall,
    PageRun,
    PageSession,
    PageShare,
    TextPool,
    WordPool,
)

MOST_PARTS = 100
"""Parts of one message that a page shows; the others are counted. Real messages have up to a few dozen."""

_OTHERWISE = "openai_chat"
"""The dialect of recordings whose format does not tell."""

_KINDS: dict[type, str] = {
    Thinking: "thinking",
    RedactedThinking: "thinking",
    ToolCall: "tool call",
    ToolResult: "tool result",
}


class RunOptions(msgspec.Struct, frozen=True):
    """One way to replay a recording, and its name on the page."""

    name: str
    policy: Policy
    model: str | None = None
    dialect: str | None = None
    counter: ModelCounter | None = None


def stored_page(store: Store, session: str, *, source: str = "", compare: Sequence[RunOptions] = ()) -> PageSession:
    """Return the data of a stored session's page, the next call included, and beside it its replay under other policies."""
    log = _Log(store, known_session(store, session))
    runs = [log.run("as it was sent", {}, ())]
    if compare:
        recording = stored_recording(store, session)
        runs += [_replayed(recording, one, log)[1] for one in compare]
    return log.page(source, runs)


def recorded_page(recording: Recording, options: Sequence[RunOptions]) -> PageSession:
    """Return the data of a recording's page: every call as each policy would have sent it."""
    log, run = _replayed(recording, options[0], None)
    return log.page(recording.source, [run, *(_replayed(recording, one, log)[1] for one in options[1:])])


def stored_recording(store: Store, session: str) -> Recording:
    """Return the messages of a stored session as a recording, for a replay under another policy."""
    entries = branch_of(store, session)
    setups = [entry.body for entry in entries if isinstance(entry.body, Setup)]
    if not setups:
        raise NotFound(f"session {session!r} has no prompt yet: nothing was sent")
    messages = (read_artifacts(store.artifacts, entry).body for entry in entries)
    own = ours(setups[-1].tools)
    tools = [tool for tool in msgspec.json.decode(setups[-1].tools) if tool_name(tool) not in own]
    return Recording(
        id=session,
        source="",
        model=setups[-1].model,
        tools=msgspec.json.encode(tools).decode(),
        steps=tuple(RecordedStep(message) for message in messages if isinstance(message, Message)),
        dialect=setups[-1].dialect,
    )


def _replayed(recording: Recording, options: RunOptions, log: "_Log | None") -> tuple["_Log", PageRun]:
    """Replay a recording and return its log with the run; words and texts are shared with another log of the same session."""
    store = MemoryStore()
    done = replay(
        recording,
        model=options.model,
        policy=options.policy,
        dialect=options.dialect or recording.dialect or _OTHERWISE,
        counter=options.counter,
        store=store,
    )
    recorded = {call.number: call.recorded for call in done.calls if call.recorded}
    own = log.again(store) if log else _Log(store, recording.id)
    return own, own.run(options.name, recorded, done.notes, is_over=True)


class _Log:
    """One session: its messages by place, and the pools of all its runs."""

    def __init__(self, store: Store, session: str, pools: tuple[WordPool, TextPool] | None = None) -> None:
        self.store, self.session = store, session
        self.words, self.texts = pools or (WordPool(), TextPool())
        self._tools: dict[str, str] = {}
        """The name of each tool by the ids of its calls."""
        self._places: dict[str, int] = {}
        """How many messages come before each entry of the branch."""
        self._messages: set[str] = set()
        self._refs: dict[str, int] = {}
        self.originals: list[tuple[PagePart, ...]] = []
        self.entries, self.recalls = list[PageEntry](), list[PageRecall]()
        self._read()

    def again(self, store: Store) -> "_Log":
        """Return the same session as another policy has kept it. Words and texts are shared."""
        return _Log(store, self.session, (self.words, self.texts))

    def page(self, source: str, runs: Sequence[PageRun]) -> PageSession:
        return PageSession(
            name=visible(self.session),
            source=visible(source),
            entries=tuple(self.entries),
            recalls=tuple(self.recalls),
            runs=tuple(runs),
            words=tuple(self.words.words),
            texts=tuple(self.texts.texts),
        )

    def run(
        self, name: str, recorded: Mapping[int, RecordedBill], notes: Sequence[str], *, is_over: bool = False
    ) -> PageRun:
        """Return all calls under the policy of this log; without the next one, if the session is over."""
        book, lines, calls, counted = HistoryBook(self.store, self.session), _RunLines(self), list[PageCall](), ""
        for call in stored_calls(self.store, self.session):
            entered = book.enter(call)
            counter = call.model_setup.counter
            counted = f"{counter.counter.name}{'' if counter.exact else f'; {counter.error}'}"
            if call.reply_tokens is not None or not is_over:
                calls.append(_page_call(call, entered, lines.advance(call), recorded.get(call.prompt.call)))
        history = book.history()
        return PageRun(
            name=visible(name),
            calls=tuple(calls),
            lines=tuple(lines.lines),
            folds=history.folds,
            total=history.total,
            next_fold=None if is_over else history.next_fold,
            counted=visible(counted),
            notes=tuple(map(visible, notes)),
        )

    def place(self, entry: str) -> int:
        """Return the place of a message."""
        return self._places[entry]

    def last_place(self, entry: str) -> int:
        """Return the place of the last message up to an entry."""
        return self._places[entry] - (entry not in self._messages)

    def name(self, role: str, parts: Sequence[Part | None]) -> str:
        """Return the names of the tools that a message calls or answers, else its role."""
        calls = (part.name for part in parts if isinstance(part, ToolCall))
        answers = (self._tools.get(part.call, "") for part in parts if isinstance(part, ToolResult))
        return ", ".join(list(dict.fromkeys(name for name in (*calls, *answers) if name))[:3]) or role

    def parts(self, role: str, parts: Sequence[tuple[Part | None, str]]) -> tuple[PagePart, ...]:
        """Return parts with their levels as numbers, the first of them only."""
        found = list[PagePart]()
        for part, level in parts[:MOST_PARTS]:
            titles = [(role, "")] if part is None else part_texts(role, part)
            found += [
                PagePart(self.words.number(title), self.words.number(level), self.texts.number(text))
                for title, text in titles
            ]
        return tuple(found)

    def _read(self) -> None:
        calls = 0
        for entry in branch_of(self.store, self.session):
            self._places[entry.id] = len(self.entries)
            if not isinstance(entry.body, Message):
                continue
            message = read_artifacts(self.store.artifacts, entry).body
            if not isinstance(message, Message):
                continue
            self._messages.add(entry.id)
            self._refs[entry_ref(entry.id)] = len(self.entries)
            self._tools |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
            calls += message.role == "assistant"
            self.recalls += self._recalled(message, calls)
            self.entries.append(
                PageEntry(
                    id=visible(entry.id),
                    role=message.role,
                    name=self.words.number(self.name(message.role, message.parts)),
                    call=calls + 1,
                    parts=self.parts(message.role, [(part, "full") for part in message.parts]),
                    left_out=max(0, len(message.parts) - MOST_PARTS),
                )
            )

    def _recalled(self, message: Message, call: int) -> Iterator[PageRecall]:
        for part in message.parts:
            if isinstance(part, ToolCall) and part.name == RECALL_TOOL:
                first, _, last = _reference(part.arguments).partition("..")
                places = [self._refs.get(ref, self._refs.get(ref.rpartition(".")[0])) for ref in (first, last or first)]
                if None not in places:
                    yield PageRecall(call, *(place for place in places if place is not None))


class _RunLines:
    """The lines of all calls of a run, each kept once."""

    def __init__(self, log: _Log) -> None:
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


def _page_call(
    call: StoredCall, entered: CallHistory, lines: tuple[int, tuple[int, ...]], recorded: RecordedBill | None
) -> PageCall:
    cost, prefix = entered.cost, entered.prefix
    return PageCall(
        call=cost.call,
        model=visible(cost.model),
        limit=entered.limit,
        kept=lines[0],
        lines=lines[1],
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
        recorded=recorded,
    )


def _kind(role: str, part: Part | None) -> str:
    return _KINDS.get(type(part), "tool result" if role == "tool" else role)


def _reference(arguments: str) -> str:
    """Return the reference that a call of the recall tool names; empty if it names none."""
    try:
        found = msgspec.json.decode(arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return ref if isinstance(ref := found.get("ref"), str) else ""
