"""The explanation of a prompt: one line per entry, totals that add up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from foveal.values.entry import Block, Fold
from foveal.values.shown import Atom, Item, range_ref

PROMPT_TOKENS = 24
"""Tokens of a prompt beyond its messages: the reply's opening (3 at OpenAI) and a turn of the user where one must be added."""


class TraceLine(msgspec.Struct, frozen=True):
    """One entry (or a covered range of entries) as a prompt shows it: how, by which policy and why."""

    entry: str
    kind: str
    shown: str
    """Levels of its parts: `full`, `trimmed`, `reference`, `covered`, `cleared`, `hidden`."""
    policy: str
    because: str
    tokens: int
    raw_tokens: int
    entries: int = 1
    """Number of entries that the line describes."""


class Trace(msgspec.Struct, frozen=True):
    session: str
    call: int
    model: str
    dialect: str
    limit: int
    lines: tuple[TraceLine, ...]
    tools_tokens: int
    framing_tokens: int
    fold: Fold | None = None
    """The fold that was made for this prompt, with its reason and its stake. The lines show its effect on each entry."""
    notes: tuple[str, ...] = ()
    """Reasons why the prompt may be no larger, beyond the policy: a limit that was learned, a provider that counts more."""

    @property
    def tokens(self) -> int:
        return self.tools_tokens + self.framing_tokens + sum(line.tokens for line in self.lines)

    @property
    def raw_tokens(self) -> int:
        return self.tools_tokens + self.framing_tokens + sum(line.raw_tokens for line in self.lines)


def lines_of(atoms: Sequence[Atom]) -> Iterator[TraceLine]:
    """Yield a line for every entry of the atoms, in order; for a gap, one line for its range."""
    for atom in atoms:
        if gap := atom.gap:
            ref = range_ref(gap.first, gap.newest[1])
            tokens = atom.size.tokens
            yield TraceLine(ref, "range", gap.level, gap.policy, gap.because, tokens, gap.raw_tokens, gap.entries)
        for item in atom.items:
            yield _line(item)


def framing_of(atoms: Sequence[Atom]) -> int:
    """Return the tokens of the atoms beyond their items: placeholder results, user turns between two replies, labels."""
    loose = sum(atom.size.tokens - sum(item.size.tokens for item in atom.items) for atom in atoms if not atom.gap)
    return PROMPT_TOKENS + loose


def _line(item: Item) -> TraceLine:
    levels = dict.fromkeys(shown.level for shown in item.shown)
    policies = dict.fromkeys(shown.policy for shown in item.shown if shown.policy)
    reasons = dict.fromkeys(shown.because for shown in item.shown if shown.because)
    if item.repair:
        policies.setdefault("repair")
        reasons[item.repair] = None
    if item.pinned:
        policies["pin"] = None
        reasons["pinned"] = None
    return TraceLine(
        entry=item.id,
        kind=item.role,
        shown="+".join(levels) or "hidden",
        policy="+".join(policies),
        because="; ".join(reasons),
        tokens=item.size.tokens,
        raw_tokens=item.size.tokens + sum(shown.raw_tokens - shown.size.tokens for shown in item.shown),
    )


def renamed_lines(renamed: Mapping[str, str]) -> Iterator[TraceLine]:
    """Yield a line for every tool that is offered under another name than the host's; its tokens are those of the tools."""
    for sent, name in renamed.items():
        because = f"providers refuse the tool's name; it is offered as {sent}"
        yield TraceLine(name, "tool", "full", "repair", because, 0, 0)


def block_lines(blocks: Iterable[Block]) -> Iterator[TraceLine]:
    """Yield the trace lines of blocks beside the conversation: one for a fence, one for each reminder."""
    for block in blocks:
        for one in block.said:
            yield TraceLine(one.name, block.kind, "full", block.kind, one.because, one.tokens, one.tokens)
        if not block.said:
            shown, raw = ("trimmed", block.raw_tokens) if block.raw_tokens > block.tokens else ("full", block.tokens)
            yield TraceLine(
                block.name, block.kind, shown, block.kind, block.because or block.placement, block.tokens, raw
            )
