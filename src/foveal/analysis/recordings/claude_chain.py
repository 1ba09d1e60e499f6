"""The lines of a Claude Code session that belong to the conversation at its end.

Lines form a tree by `parentUuid`. A rewind starts a new branch and leaves the old one in the file, so the conversation is
the path from the last message back to the root. Three things hang beside that path and belong to it all the same:

    reply, block 1 ── reply, block 2 ── result of block 2 ── next reply     the path
         └── result of block 1                                              a parallel call's result, beside it

    … ── message before     boundary ── summary                             a compaction: `parentUuid` is null and
              └┄┄ logicalParentUuid ┄┄┘                                     the logical parent leads on

    … ── message before ── /compact ── next prompt                          a compaction by hand: the summary is a
              └┄┄┄┄┄┄┄┄┄ boundary ── summary                                branch that nothing continues
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from foveal.analysis.recordings.lines import JsonLine
from foveal.analysis.recordings.recording import tally
from foveal.dialects.json_values import JsonObject, elements, mapping, string


class ClaudeLine(msgspec.Struct, frozen=True):
    """One line that has a place in the tree (or, in old and foreign files, just carries a message)."""

    line: JsonLine
    type: str
    record: JsonObject
    message: JsonObject | None
    aside: bool
    """Part of a side chain: the conversation of a sub-agent."""

    @property
    def uuid(self) -> str | None:
        return string(self.record.get("uuid"))

    @property
    def parent(self) -> str | None:
        return string(self.record.get("parentUuid"))

    @property
    def logical_parent(self) -> str | None:
        return string(self.record.get("logicalParentUuid"))

    @property
    def agent(self) -> str | None:
        """The id of the sub-agent whose line this is; None for a line of the session itself."""
        return string(self.record.get("agentId")) or string(self.record.get("parent_tool_use_id"))

    @property
    def is_boundary(self) -> bool:
        return self.record.get("subtype") == "compact_boundary"

    @property
    def reply(self) -> str | None:
        """The id of the API reply that an assistant line is a piece of."""
        return string(self.message.get("id")) if self.type == "assistant" and self.message else None

    def blocks(self, kind: str) -> Iterator[JsonObject]:
        for value in elements((self.message or {}).get("content")):
            block = mapping(value)
            if block is not None and block.get("type") == kind:
                yield block

    def calls(self) -> set[str]:
        return {call for block in self.blocks("tool_use") if (call := string(block.get("id")))}

    def answers(self) -> set[str]:
        return {call for block in self.blocks("tool_result") if (call := string(block.get("tool_use_id")))}


def split_chains(entries: Sequence[ClaudeLine]) -> list[tuple[str | None, list[ClaudeLine]]]:
    """Return the conversations of a file with the ids of their agents: the session's own (None) first, then side chains.

    Side chains that name no agent are told apart by the lines that they begin with.
    """
    chains: dict[str | None, list[ClaudeLine]] = {None: [entry for entry in entries if not entry.aside]}
    roots: dict[str, str] = {}
    for entry in entries:
        if entry.aside:
            root = entry.agent or roots.get(entry.parent or "") or entry.uuid or "side chain"
            if entry.uuid:
                roots[entry.uuid] = root
            chains.setdefault(root, []).append(entry)
    if len(chains) > 1 and not any(entry.message for entry in chains[None]):
        del chains[None]  # the file of a sub-agent holds nothing but its side chain
    return list(chains.items())


def conversation_lines(entries: Sequence[ClaudeLine], notes: list[str]) -> list[ClaudeLine]:
    """Return the entries of one chain that belong to the conversation at its end, in the order of the file."""
    main = _unrepeated(entries, notes)
    if not any("parentUuid" in entry.record for entry in main):
        return main
    chosen = _path(main, notes)
    _add_summaries(main, chosen)
    _add_pieces_and_results(main, chosen)
    abandoned = Counter(entry.type for index, entry in enumerate(main) if index not in chosen and entry.uuid)
    if abandoned["user"] or abandoned["assistant"]:
        notes += tally(
            abandoned, "lines stand beside the conversation (branches abandoned by a rewind) and were left out"
        )
    return [entry for index, entry in enumerate(main) if index in chosen]


def reply_runs(entries: Sequence[ClaudeLine]) -> Iterator[int | None]:
    """Yield for each entry the number of the run of lines that make up its reply; None for an entry that is no reply.

    Lines of one reply share `message.id` and follow each other, with at most results, notes and bookkeeping between them. The
    same id further on is the same reply told again, by a session that was resumed or branched.
    """
    run, current = -1, None
    for entry in entries:
        if entry.type == "assistant" and entry.message is not None:
            if entry.reply is None or entry.reply != current:
                run += 1
            current = entry.reply
            yield run
        else:
            if entry.message is not None and not entry.answers():
                current = None
            yield None


def _unrepeated(entries: Sequence[ClaudeLine], notes: list[str]) -> list[ClaudeLine]:
    """Return the entries without repetitions: a resumed session may be written into its file twice, the first time counts."""
    seen: set[str] = set()
    kept: list[ClaudeLine] = []
    for entry in entries:
        uuid = entry.uuid
        if uuid is None or uuid not in seen:
            kept.append(entry)
        if uuid is not None:
            seen.add(uuid)
    if len(kept) < len(entries):
        notes.append(f"{len(entries) - len(kept)} lines repeat an earlier one (same uuid) and were left out")
    return kept


def _path(main: Sequence[ClaudeLine], notes: list[str]) -> set[int]:
    """Return the indices of the entries from the last message to the root."""
    places: dict[str | None, int] = {entry.uuid: index for index, entry in enumerate(main) if entry.uuid}
    index = next((index for index in reversed(range(len(main))) if main[index].message), None)
    chosen: set[int] = set()
    while index is not None and index not in chosen:
        chosen.add(index)
        entry = main[index]
        if entry.parent in places:
            index = places[entry.parent]
        elif entry.is_boundary:
            index = _before_boundary(main, index, places)
        else:
            if entry.parent is not None:
                notes.append(f"line {entry.line.number} continues a message that is not in this file")
            index = None
    return chosen


def _before_boundary(main: Sequence[ClaudeLine], index: int, places: dict[str | None, int]) -> int | None:
    """Return the index of the last compacted message: the logical parent or, where it is missing, the last message before."""
    logical = places.get(main[index].logical_parent)
    if logical is not None:
        return logical
    return next((before for before in reversed(range(index)) if main[before].message), None)


def _add_summaries(main: Sequence[ClaudeLine], chosen: set[int]) -> None:
    """Add the summaries of compactions of this conversation that nothing continues, with the notes before them."""
    uuids = {main[index].uuid for index in chosen} - {None}
    after: dict[str, tuple[int, ...]] = {}
    for index, entry in enumerate(main):
        if entry.is_boundary and entry.uuid and entry.logical_parent in uuids:
            after[entry.uuid] = ()
        elif entry.parent in after:
            way = (*after[entry.parent], index)
            if entry.record.get("isCompactSummary") is True:
                chosen.update(way)
            elif entry.message is None and entry.uuid:
                after[entry.uuid] = way


def _add_pieces_and_results(main: Sequence[ClaudeLine], chosen: set[int]) -> None:
    """Add the other lines of the replies on the path, and the results of calls that the path leaves unanswered."""
    runs = list(reply_runs(main))
    replies = {runs[index] for index in chosen} - {None}
    chosen.update(index for index, run in enumerate(runs) if run in replies)
    calls: set[str] = set()
    for index in chosen:
        calls |= main[index].calls()
    for index in chosen:
        calls -= main[index].answers()
    for index, entry in enumerate(main):
        if index not in chosen and entry.answers() & calls:
            chosen.add(index)
            calls -= entry.answers()
