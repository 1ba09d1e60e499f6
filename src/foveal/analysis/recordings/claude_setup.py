"""The system prompt and the tools of a Claude Code session, where its file holds them.

Versions since 2026 write down what they send. Each request is a line, and the part of it that seldom changes is another:

    {"type": "api-request-shape", "shapeHash", "shape": {"system": [blocks], "tools": [definitions]}}
    {"type": "api-request", "id", "shapeHash", …}

The same is kept in the tree, as an attachment of the type `prompt_snapshot` (`systemPrompt`, `cliPrefix`, `tools`), which is read
where a file has no request lines. Lines of a sub-agent name it (`agentId`). Older versions write neither.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.recordings.claude_chain import ClaudeLine
from foveal.dialects.json_values import JsonObject, elements, fields, mapping, string

SHAPE, REQUEST, SNAPSHOT = "api-request-shape", "api-request", "prompt_snapshot"


class ClaudeSetup(msgspec.Struct, frozen=True):
    """The part of every request that is not the conversation."""

    system: tuple[str, ...] = ()
    tools: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()


def recorded_setup(entries: Sequence[ClaudeLine], agent: str | None, chain: Sequence[ClaudeLine]) -> ClaudeSetup:
    """Return the setup of one agent of a file; `chain` is its conversation, whose calls say which deferred tools it loaded."""
    own = [entry for entry in entries if entry.agent == agent]
    found = _from_requests(own) or _from_snapshots(chain)
    if found is None:
        return ClaudeSetup(notes=("the file holds neither the system prompt nor the tool definitions",))
    called = {string(block.get("name")) for entry in chain for block in entry.blocks("tool_use")}
    tools = [tool for tool in found.tools if tool.get("defer_loading") is not True or tool.get("name") in called]
    notes = list(found.notes)
    if left := len(found.tools) - len(tools):
        notes.append(f"{left} deferred tools that were never called were left out")
    if not found.tools:
        notes.append("the file does not hold the tool definitions")
    return ClaudeSetup(found.system, tuple(tools), tuple(notes))


def _from_requests(entries: Iterable[ClaudeLine]) -> ClaudeSetup | None:
    """Return the setup that most requests had; of several, the one that came first."""
    shapes: dict[str, JsonObject] = {}
    used: Counter[str] = Counter()
    for entry in entries:
        name = string(entry.record.get("shapeHash")) or ""
        if entry.type == SHAPE:
            shapes.setdefault(name, fields(entry.record.get("shape")))
        elif entry.type == REQUEST:
            used[name] += 1
    if not shapes:
        return None
    shape = shapes[max(shapes, key=lambda name: used[name])]
    blocks = (fields(block) for block in elements(shape.get("system")))
    system = tuple(text for block in blocks if (text := string(block.get("text"))))
    notes = [f"system prompt or tools changed {len(shapes) - 1} times; those of most requests are taken"]
    return ClaudeSetup(system, tuple(_objects(shape.get("tools"))), tuple(notes[: len(shapes) - 1]))


def _from_snapshots(chain: Iterable[ClaudeLine]) -> ClaudeSetup | None:
    """Return the setup of the newest snapshots: they repeat each other, but not all of them have the tools."""
    system: tuple[str, ...] = ()
    tools: tuple[JsonObject, ...] = ()
    for entry in chain:
        taken = fields(entry.record.get("attachment"))
        if taken.get("type") != SNAPSHOT:
            continue
        pieces = [text for piece in elements(taken.get("systemPrompt")) if (text := string(piece))]
        texts = (string(taken.get("cliPrefix")), "\n\n".join(pieces))
        system = tuple(text for text in texts if text) or system
        tools = tuple(_objects([fields(tool).get("schema") for tool in elements(taken.get("tools"))])) or tools
    return ClaudeSetup(system, tools) if system or tools else None


def _objects(values: object) -> Iterator[JsonObject]:
    for value in elements(values):
        found = mapping(value)
        if found is not None:
            yield found
