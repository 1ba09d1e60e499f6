"""The data of a page: sessions with their messages once, and for each policy every call by the lines that are new in it.

Words and texts are kept once and named by number. A message is named by its place among the messages of the session, which is the
same under every policy: folds take places and ids in a log too, and differ.
"""

from collections.abc import Mapping

import msgspec

from foveal.analysis.chart import ScatterChart
from foveal.analysis.inspect.cost import CostTotals, FoldCost, ReportedUsage
from foveal.analysis.inspect.next_fold import NextFold
from foveal.analysis.inspect.prefix_moves import PrefixMove
from foveal.analysis.replay.bills import Bill, RecordedBill
from foveal.analysis.replay.provider_counts import ProviderCounts, RecordedCall, provider_bills
from foveal.models.catalogue import find
from foveal.text.display import visible

_WORD_CHARS = 400
"""A reason, a title or a name: more is no longer read in a table."""


class PagePart(msgspec.Struct, frozen=True, array_like=True):
    """One part of a message: the numbers of its title, of its level and of its text."""

    title: int
    level: int
    text: int


class PageEntry(msgspec.Struct, frozen=True):
    """One message of the session, as it was recorded."""

    id: str
    role: str
    name: int
    """The number of the word that names it: its tool, where it has one."""
    call: int
    """The first call that could show it."""
    parts: tuple[PagePart, ...]
    left_out: int = 0
    """Parts beyond those, which are counted and not shown."""


class PageShare(msgspec.Struct, frozen=True, array_like=True):
    """The tokens of a line that are of one kind and at one level."""

    kind: int
    level: int
    tokens: int


class PageLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a trace with the texts that were sent. Lines that several calls have are kept once."""

    kind: str
    """`entry`, `range`, `fence` or `reminder`."""
    first: int
    """The message, or the first one of a range; -1 for a text beside the conversation."""
    last: int
    name: int
    shown: int
    """The levels of all parts, as a word."""
    level: int
    """The level of its largest part, as a word: the colour on the map."""
    policy: int
    because: int
    tokens: int
    raw: int
    shares: tuple[PageShare, ...]
    parts: tuple[PagePart, ...] | None = None
    """None if all parts are shown as they were recorded."""
    left_out: int = 0
    entries: int = 1


class PageCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call: its prompt by numbers of lines, its bills and the changes to its prefix."""

    call: int
    model: str
    limit: int
    kept: int
    """How many leading lines are the same as in the call before."""
    lines: tuple[int, ...]
    """The lines after those."""
    tools: int
    framing: int
    sent: Bill | None
    """None if no prompt can have been sent."""
    tokens: int
    whole: Bill
    fits_whole: bool
    """Whether the model takes the whole history."""
    output: int
    output_usd: float | None
    is_answered: bool
    price_read: float | None
    """USD for a million tokens that come from the cache."""
    price_write: float | None
    """USD for a million tokens that do not."""
    is_cold: bool = False
    folds: int = 0
    moves: tuple[PrefixMove, ...] = ()
    moved: int = 0
    """Tokens behind the first change to the prefix, which are billed anew for it."""
    reported: ReportedUsage | None = None
    recorded: RecordedBill | None = None
    is_compacted: bool = False
    """Whether the recording agent had compacted its own context before this call."""
    time_ms: int = 0


class PageRun(msgspec.Struct, frozen=True):
    """All calls of the session under one policy."""

    name: str
    calls: tuple[PageCall, ...]
    lines: tuple[PageLine, ...]
    folds: tuple[FoldCost, ...]
    total: CostTotals
    next_fold: NextFold | None
    counted: str
    """How the tokens were counted."""
    notes: tuple[str, ...] = ()


class PageRecall(msgspec.Struct, frozen=True, array_like=True):
    """A call in which the model fetched the messages `first` … `last` again."""

    call: int
    first: int
    last: int


class PageChild(msgspec.Struct, frozen=True):
    """A session that this one opened: a sub-agent, and the calls of this session between which it worked."""

    name: str
    first: int
    """0 where it is not known, as for `last`."""
    last: int
    href: str = ""
    """The address of its page; empty if there is none."""


class PageSession(msgspec.Struct, frozen=True):
    """One session: its messages, and its calls under one or two policies."""

    name: str
    source: str
    project: str
    """The folder that it worked in; empty where it is not known."""
    hidden: int
    """Tokens of a fixed part that is in every prompt and not in the log, by the provider's count."""
    ratio: float
    """The provider's count of the rest, divided by ours."""
    entries: tuple[PageEntry, ...]
    recalls: tuple[PageRecall, ...]
    runs: tuple[PageRun, ...]
    words: tuple[str, ...]
    texts: tuple[str, ...]
    children: tuple[PageChild, ...] = ()


class OverviewRow(msgspec.Struct, frozen=True):
    """One session in a list of several, by its first policy."""

    name: str
    source: str = ""
    project: str = ""
    """The folder that it worked in, or the scope of a stored session; empty where neither is known."""
    model: str = ""
    updated: str = ""
    """When it was last used; empty where that is not known."""
    href: str = ""
    """The address of its page; empty if it is in the same file."""
    parent: str = ""
    """The address of the session that opened it; empty if there is none."""
    error: str = ""
    """Why there is no page of it."""
    title: str = ""
    """The line for people that it was given; empty if there is none."""
    calls: int = 0
    messages: int = 0
    sent_tokens: int = 0
    cached_tokens: int = 0
    sent_usd: float | None = None
    """The whole bill of all calls, replies included, as are the next two; None where a price is not known."""
    whole_usd: float | None = None
    """The bill of sending the whole history each time."""
    too_large: int = 0
    """Calls whose whole history is larger than the model takes."""
    recorded_usd: float | None = None
    """The bill of the recording agent's own requests, by the provider's counts; None where they are not recorded, and for
    sessions of a store, whose requests are the prompts that were sent."""
    folds: int = 0
    is_running: bool = False
    """Whether a process may append to it now."""
    pressure: float | None = None
    """The share of the limit that its newest prompt takes; None where no prompt is due."""


class PageTable(msgspec.Struct, frozen=True):
    """A table of texts."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class PageReport(msgspec.Struct, frozen=True):
    """The results of a measurement: words, charts, and tables that hold the same figures."""

    title: str
    paragraphs: tuple[str, ...] = ()
    charts: tuple[ScatterChart, ...] = ()
    tables: tuple[PageTable, ...] = ()


class PageOverview(msgspec.Struct, frozen=True):
    """The list of all sessions of a page."""

    title: str
    sessions: tuple[OverviewRow, ...]
    sent_as: str = "sent"
    """The name of the policy that the bills are of."""
    note: str = ""
    home: str = ""
    """The address of the list that a page of one session was opened from."""
    events: str = ""
    """The address of the stream of changes; empty for a page that stays as it is."""
    budgets: tuple[int, ...] = ()
    """Budgets that the bills can be asked for; empty if they are of prompts that were sent."""
    budget: int = 0
    """The budget of the bills in the list; 0 for the policy that was asked for."""
    report: PageReport | None = None
    """The results of a measurement, shown above the list."""
    reading: int = 0
    """The reading of the log that a page of a growing session is of."""


def overview_row(session: PageSession) -> OverviewRow:
    """Return the row of a session in a list."""
    run = session.runs[0]
    recorded = [call.recorded.cost_usd for call in run.calls if call.recorded]
    known = [usd for usd in recorded if usd is not None]
    recorded_usd = sum(known) if known else None
    sent_usd, whole_usd = _comparable_bills(session, run, recorded_usd)
    return OverviewRow(
        name=session.name,
        source=session.source,
        project=session.project,
        messages=len(session.entries),
        model=run.calls[-1].model if run.calls else "",
        calls=run.total.calls,
        sent_tokens=run.total.sent_tokens,
        cached_tokens=run.total.cached_tokens,
        sent_usd=sent_usd,
        whole_usd=whole_usd,
        too_large=run.total.too_large,
        recorded_usd=recorded_usd,
        folds=len(run.folds),
    )


def _comparable_bills(
    session: PageSession, run: PageRun, recorded_usd: float | None
) -> tuple[float | None, float | None]:
    """Return the bills of the prompts and of the whole history, in the provider's counts where it counted them."""
    calls = [
        RecordedCall(call.sent, call.whole if call.fits_whole else None, call.recorded)
        for call in run.calls
        if call.recorded
    ]
    if calls:
        counts = ProviderCounts(session.hidden, session.ratio)
        is_compacted = any(call.is_compacted for call in run.calls)
        facts = find(run.calls[-1].model)
        return provider_bills(calls, counts, facts, recorded_usd=recorded_usd, is_compacted=is_compacted)
    bills = (in_provider_counts(run.total, usd) for usd in (run.total.sent_usd, run.total.everything_usd))
    sent_usd, whole_usd = (with_replies(run.total, usd) for usd in bills)
    return sent_usd, whole_usd


def in_provider_counts(total: CostTotals, usd: float | None) -> float | None:
    """Return a bill of input as the provider would count it, by its counts of the prompts that were sent."""
    if usd is None or not total.reported_usd or not total.estimated_usd:
        return usd
    return usd * total.reported_usd / total.estimated_usd


def with_replies(total: CostTotals, usd: float | None) -> float | None:
    """Return a bill of input together with that of the replies; None where a price is not known."""
    return None if usd is None or total.output_usd is None else usd + total.output_usd


def with_links(session: PageSession, places: Mapping[str, str]) -> PageSession:
    """Return a session whose children have the addresses of their pages, by their names."""
    children = tuple(msgspec.structs.replace(one, href=places.get(one.name, "")) for one in session.children)
    return msgspec.structs.replace(session, children=children)


class WordPool:
    """Words that are kept once, each by its number. They are short and safe to show."""

    def __init__(self, most: int = _WORD_CHARS) -> None:
        self.words: list[str] = []
        self._numbers: dict[str, int] = {}
        self._most = most

    def number(self, word: str) -> int:
        """Return the number of a word."""
        found = self._numbers.get(word)
        if found is None:
            found = self._numbers[word] = len(self.words)
            self.words.append(shown_text(word, self._most))
        return found


class TextPool:
    """Texts that are kept once, each by its number, whole and as they are: `encoded` cuts them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


def shown_text(text: str, most: int) -> str:
    """Return a text that is safe to show, of at most about `most` characters, with a note on those that are missing."""
    if len(text) <= most:
        return visible(text)
    head, tail = most * 2 // 3, most // 3
    note = f"\n[… {len(text) - head - tail:,} of {len(text):,} characters are not in this page …]\n"
    return visible(text[:head]) + note + visible(text[len(text) - tail :])


def encoded(session: PageSession, most_chars: int) -> bytes:
    """Return a session as JSON, with each text cut to this length."""
    texts = tuple(shown_text(text, most_chars) for text in session.texts)
    return msgspec.json.encode(msgspec.structs.replace(session, texts=texts))
