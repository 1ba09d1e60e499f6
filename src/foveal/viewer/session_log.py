"""The messages of one session for its page: each by its place, with words and texts in pools that all runs share."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.inspect.part_texts import part_texts
from foveal.analysis.replay.provider_counts import ProviderCounts
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Store
from foveal.text.display import visible
from foveal.values.entry import Entry, Message, Part, ToolCall, ToolResult
from foveal.values.own_tools import RECALL_TOOL
from foveal.values.shown import entry_ref
from foveal.viewer.document import PageEntry, PagePart, PageRecall, PageRun, PageSession, TextPool, WordPool

MOST_PARTS = 100
"""Parts of one message that a page shows; the others are counted. Real messages have up to a few dozen."""


class SessionLog:
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
        self.times_ms: list[int] = []
        """When each reply was recorded."""

    def again(self, store: Store) -> "SessionLog":
        """Return the same session as another policy has kept it. Words and texts are shared."""
        return SessionLog(store, self.session, (self.words, self.texts))

    def page(
        self, source: str, runs: Sequence[PageRun], *, project: str = "", counts: ProviderCounts | None = None
    ) -> PageSession:
        return PageSession(
            name=visible(self.session),
            source=visible(source),
            project=visible(project),
            hidden=counts.fixed if counts else 0,
            ratio=counts.ratio if counts else 1.0,
            entries=tuple(self.entries),
            recalls=tuple(self.recalls),
            runs=tuple(runs),
            words=tuple(self.words.words),
            texts=tuple(self.texts.texts),
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

    def read(self, entries: Iterable[Entry]) -> None:
        """Take the next entries of the branch."""
        artifacts = self.store.artifacts_for(self.session)
        for entry in entries:
            self._places[entry.id] = len(self.entries)
            if not isinstance(entry.body, Message):
                continue
            message = read_artifacts(artifacts, entry).body
            if not isinstance(message, Message):
                continue
            self._messages.add(entry.id)
            self._refs[entry_ref(entry.id)] = len(self.entries)
            self._tools |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
            if message.role == "assistant":
                self.times_ms.append(entry.time_ms)
            calls = len(self.times_ms)
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


def _reference(arguments: str) -> str:
    """Return the reference that a call of the recall tool names; empty if it names none."""
    try:
        found = msgspec.json.decode(arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return ref if isinstance(ref := found.get("ref"), str) else ""
