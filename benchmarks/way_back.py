"""The way back: is every byte that the last prompt of a session does not show one recall away?

    python benchmarks/way_back.py                            # the sessions of the benchmark, at 16,000 tokens a call
    python benchmarks/way_back.py --sessions 2 --budget 32000

Every reference that a stand-in names is fetched window by window and compared with the recording. Prints a table.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from foveal.analysis.measurement.suite import Pick, Source, load
from foveal.analysis.recordings import Recording
from foveal.analysis.replay.replay import replay
from foveal.recall import Fetch, fetch
from foveal.session.policy import BudgetTable, Policy
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.values.entry import Message, Part, Text, Thinking, ToolCall, ToolResult
from foveal.values.errors import FovealError
from foveal.values.prompt import Prompt
from foveal.values.shown import entry_ref
from foveal_bench.tables import markdown
from run import DATA, LEAST_TOKENS, SETS

Figures = Counter[str]
HEAD = (
    "set", "sessions", "folded parts", "folded bytes", "bytes back", "references", "same", "calls", "whole in one call",
    "errors", "same JSON without its spaces", "bytes that the dialect hides",
)  # fmt: skip
COLUMNS = (
    "sessions", "folded_parts", "folded_bytes", "back_bytes", "references", "same", "calls", "one_call", "errors", "respaced",
    "hidden_bytes",
)  # fmt: skip


def original(part: Part) -> str:
    """The text of a part as it was recorded, told without the code that is measured."""
    match part:
        case Text(text) | Thinking(text):
            return text
        case ToolCall(_, name, arguments):
            return f"{name}({arguments})"
        case ToolResult(_, content):
            return "\n".join(item.text if isinstance(item, Text) else "" for item in content)
        case _:
            return ""


def has_image(message: Message) -> bool:
    inside = [item for part in message.parts if isinstance(part, ToolResult) for item in part.content]
    return any(not isinstance(item, Text) for item in inside) or any(
        not isinstance(part, Text | Thinking | ToolCall | ToolResult) for part in message.parts
    )


def transcript(messages: Sequence[tuple[str, Message]]) -> str:
    return "\n\n".join(
        f"[{message.role} {entry[:10]}]\n" + "\n".join(original(part) for part in message.parts)
        for entry, message in messages
    )


_REF = re.compile(r"(?<![\w.])([0-9a-f]{10})(?:\.\.([0-9a-f]{10})|\.(\d+))?(?![\w])")


class Way:
    """The last prompt of one session, and the originals behind its references."""

    def __init__(self, store: MemoryStore, recording: Recording, prompt: Prompt, before: int) -> None:
        self.store, self.prompt, self.session = store, prompt, recording.id
        entries = [log.to_entry(row, recording.id) for row in store.rows(recording.id)]
        ids = [entry.id for entry in entries if isinstance(entry.body, Message)]
        assert len(ids) == len(recording.steps)
        self.messages = list(zip(ids, (step.message for step in recording.steps), strict=True))[:before]
        self.place = {entry_ref(entry): at for at, (entry, _) in enumerate(self.messages)}
        self.figures = Figures(sessions=1)

    def check(self) -> Figures:
        back: set[tuple[str, int]] = set()
        for ref in sorted(self.named()):
            self.figures["references"] += 1
            back |= self.fetched(*ref)
        shown, hidden, respaced = set[tuple[str, int]](), set[tuple[str, int]](), set[tuple[str, int]]()
        for item in (item for atom in self.prompt.atoms for item in atom.items):
            for i, one in enumerate(item.shown):
                if one.level == "full":
                    shown.add((item.id, i))
                elif one.policy == "dialect" and one.part is None:
                    hidden.add((item.id, i))
                elif isinstance(one.part, ToolCall) and self.is_same_json(item.id, i, one.part):
                    respaced.add((item.id, i))
        for entry, message in self.messages:
            for i, part in enumerate(message.parts):
                size = len(original(part).encode("utf-8", "surrogatepass"))
                if (entry, i) in hidden:
                    self.figures["hidden_bytes"] += size
                elif (entry, i) not in shown:
                    if (entry, i) not in back and (entry, i) in respaced:
                        self.figures["respaced"] += 1
                        self.figures["respaced_bytes"] += size
                    self.figures["folded_parts"] += 1
                    self.figures["folded_bytes"] += size
                    self.figures["back_bytes"] += size * ((entry, i) in back)
                    self.figures["back_parts"] += (entry, i) in back
        return self.figures

    def is_same_json(self, entry: str, part: int, shown: ToolCall) -> bool:
        recorded = self.messages[self.place[entry_ref(entry)]][1].parts[part]
        try:
            return isinstance(recorded, ToolCall) and json.loads(recorded.arguments) == json.loads(shown.arguments)
        except ValueError:
            return False

    def named(self) -> set[tuple[str, str, int]]:
        """First entry, last entry (empty for a part), part: what any stand-in of the prompt names."""
        found: set[tuple[str, str, int]] = set()
        for atom in self.prompt.atoms:
            below = [one for item in atom.items for one in item.shown if one.level != "full"]
            if not atom.gap and not below:
                continue
            text = atom.gap.text if atom.gap else "\n".join(original(one.part) for one in below if one.part)
            for first, last, part in _REF.findall(text):
                if first in self.place and (not last or last in self.place):
                    found.add((first, last, int(part or 0)))
        return found

    def fetched(self, first: str, last: str, part: int) -> set[tuple[str, int]]:
        """The parts that came back whole."""
        if last:
            chosen = self.messages[self.place[first] : self.place[last] + 1]
            ref, wanted = f"{first}..{last}", transcript(chosen)
            parts = {(entry, i) for entry, message in chosen for i in range(len(message.parts))}
        else:
            entry, message = self.messages[self.place[first]]
            chosen = [(entry, message)]
            ref, wanted = f"{first}.{part}" if part else first, original(message.parts[part])
            parts = {(entry, part)}
        if any(has_image(message) for _, message in chosen):
            self.figures["with_images"] += 1  # as words in brackets: no text to compare
        pieces, following = list[str](), Fetch(ref)
        while following:
            self.figures["calls"] += 1
            try:
                window = fetch(self.store, self.session, following)
            except FovealError as error:
                self.figures["errors"] += 1
                print(f"{self.session}: {ref}: {error}", file=sys.stderr)
                return set()
            pieces.append(window.text)
            following = window.next
        self.figures["one_call"] += len(pieces) == 1
        same = "".join(pieces).encode("utf-8", "surrogatepass") == wanted.encode("utf-8", "surrogatepass")
        self.figures["same"] += same
        if not same:
            print(f"{self.session}: {ref}: came back different", file=sys.stderr)
        return parts if same else set()


def last_prompt(recording: Recording, budget: int, store: MemoryStore) -> tuple[Prompt, int] | None:
    """The last prompt that was sent, and how many messages of the recording stand before it."""
    places = [i for i, step in enumerate(recording.steps) if step.message.role == "assistant"]
    found: list[tuple[Prompt, int]] = []

    def keep(number: int, prompt: Prompt | None, refused: str) -> None:
        if prompt:
            found[:] = [(prompt, places[number - 1])]

    policy = Policy(budget=BudgetTable(limit=budget, reserve=0))
    replay(recording, model="gpt-5", policy=policy, dialect="openai_chat", store=store, on_prompt=keep)
    return found[0] if found else None


def rows(sessions: int | None, budget: int) -> Iterator[list[str]]:
    every = Figures()
    for name in SETS:
        figures = Figures()
        pick = Pick(LEAST_TOKENS, sessions, test_half=True)
        for case in load(pick, Source(name, (DATA / f"{name}.jsonl.gz",))).cases:
            store = MemoryStore()
            if last := last_prompt(case.recording, budget, store):
                figures += Way(store, case.recording, *last).check()
        every += figures
        yield [name, *(f"{figures[column]:,}" for column in COLUMNS)]
    yield ["all", *(f"{every[column]:,}" for column in COLUMNS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, help="of each set, at most")
    parser.add_argument("--budget", type=int, default=16_000)
    given = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is not there: nothing was measured")
    print(markdown(HEAD, rows(given.sessions, given.budget)))


if __name__ == "__main__":
    main()
