"""Tool-heavy sessions of any length, the same for the same seed, on every machine.

The mix follows long coding sessions: one request, then replies that call one tool (sometimes three), results from a line to
20 000 characters, and a word of the user every now and then. About 1.5 MB for 1 000 messages, a few replies without calls.

    python benchmarks/synthetic.py 1000 > session.json      # OpenAI chat messages
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import foveal

Chat = dict[str, Any]

SEED = 20
USER_EVERY = 60
"""A turn of the user about every so many replies."""

_WORDS = """
account agent answer batch branch budget buffer build cache call change check child class client close code column command
commit config content context copy count create data date default delete delta detail device draft edge edit entry error event
field file filter first folder format frame function group handle header height image index input insert item join label last
layer length level limit line link list load lock logger main map mark match measure merge message method model module move
name next node note number object offset open option order output owner page parent parse part path pattern place plan point
policy port position print process project prompt queue range read record reference remove render replace reply request
reserve result return role row rule run sample save schema scope search segment select send sequence session set shape size
source stage start state status step store stream string summary switch table tail target task test text time token tool total
trace type unit update user value version view visit wait walk width window word work write
""".split()  # noqa: SIM905 - words read best as words
_KEYWORDS = ("def", "return", "import", "class", "for", "if", "else", "try", "raise", "yield", "with", "assert", "self")
_TOOLS = ("read_file", "run_command", "search", "edit_file", "list_folder")
# Characters of a result, and how often: the mean is about 2 400 characters a result, as in recorded sessions.
_RESULT_SIZES = ((80, 400, 32), (400, 2_000, 36), (2_000, 6_000, 25), (6_000, 20_000, 7))
_SYSTEM = "You are a coding agent. Work in small steps, read before you write, run the tests. "

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name.replace('_', ' ').capitalize()} in the workspace, relative to its root.",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the root of the workspace."},
                    "text": {"type": "string", "description": "What to search for, to run or to write."},
                    "limit": {"type": "integer", "description": "How many lines to return at most."},
                },
                "required": ["path"],
            },
        },
    }
    for name in _TOOLS
]


class _Writer:
    """Words, lines and files out of one random generator."""

    def __init__(self, seed: int) -> None:
        self._seed, self._random = seed, random.Random(seed)
        self._words = ["_".join(self._random.choices(_WORDS, k=self._random.choice((1, 1, 2)))) for _ in range(3_000)]
        # Text is cut from one long piece at random places: fast enough for 100 000 messages, and rarely the same twice.
        self._code = "\n".join(self._line() for _ in range(40_000))
        self._prose = " ".join(self._random.choices(_WORDS, k=60_000))
        self._ids = 0

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def prose(self, least: int, most: int) -> str:
        return self._cut(self._prose, least, most)

    def output(self) -> str:
        kinds = [size[:2] for size in _RESULT_SIZES]
        least, most = self._random.choices(kinds, [size[2] for size in _RESULT_SIZES])[0]
        return self._cut(self._code, least, most)

    def call(self) -> Chat:
        self._ids += 1
        name = self._random.choice(_TOOLS)
        arguments: dict[str, Any] = {"path": self._path(), "limit": self._random.randint(20, 400)}
        if name in ("edit_file", "run_command", "search"):
            arguments["text"] = self._cut(self._code, 40, 900 if name == "edit_file" else 120)
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": f"call_{self._seed}_{self._ids:07d}", "type": "function", "function": function}

    def _path(self) -> str:
        return "src/" + "/".join(self._random.choices(self._words, k=2)) + ".py"

    def _line(self) -> str:
        """Code and output in one: words, calls, numbers and hashes, about four characters a token as in recordings."""
        number, words = self._random.randrange(100_000), self._random.choices(self._words, k=self._random.randint(2, 5))
        words.insert(0, self._random.choice(_KEYWORDS))
        words.append(
            self._random.choice((f"({words[1]}, {number})", f"= {number}", f"{number * 40_503 % 2**32:08x}", ":"))
        )
        return " " * self._random.choice((0, 4, 8)) + " ".join(words)

    def _cut(self, text: str, least: int, most: int) -> str:
        size = self._random.randint(least, most)
        start = self._random.randrange(len(text) - size)
        return text[start : start + size].strip() or "x"


def chat_messages(n: int, seed: int = SEED) -> list[Chat]:
    """`n` messages in OpenAI's chat format. A longer session begins with the shorter one."""
    messages: list[Chat] = []
    for message in _stream(_Writer(seed)):
        if len(messages) == n:
            break
        messages.append(message)
    return messages


def _stream(writer: _Writer) -> Iterator[Chat]:
    yield {"role": "system", "content": _SYSTEM + writer.prose(2_000, 3_000)}
    yield {"role": "user", "content": writer.prose(400, 900)}
    while True:
        if writer.chance(1 / USER_EVERY):
            yield {"role": "assistant", "content": writer.prose(200, 900)}
            yield {"role": "user", "content": writer.prose(60, 500)}
            continue
        calls = [writer.call() for _ in range(3 if writer.chance(0.08) else 1)]
        text = writer.prose(40, 300) if writer.chance(0.6) else None
        yield {"role": "assistant", "content": text, "tool_calls": calls}
        for call in calls:
            yield {"role": "tool", "tool_call_id": call["id"], "content": writer.output()}


def to_message(chat: Chat) -> foveal.Message:
    """The same message as Foveal keeps it."""
    match chat["role"]:
        case "system":
            return foveal.system(chat["content"])
        case "user":
            return foveal.user(chat["content"])
        case "tool":
            return foveal.result(chat["tool_call_id"], chat["content"])
        case _:
            calls = [
                foveal.ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in chat.get("tool_calls", ())
            ]
            return foveal.assistant(chat["content"] or "", *calls)


def messages(n: int, seed: int = SEED) -> list[foveal.Message]:
    """`n` messages as Foveal keeps them."""
    return [to_message(chat) for chat in chat_messages(n, seed)]


def short_messages(n: int) -> list[foveal.Message]:
    """`n` messages so small that all of them fit a large window: where the prompt itself is long."""
    made = [foveal.user("Count the files.")]
    while len(made) < n:
        call = foveal.ToolCall(f"short_{len(made):07d}", "list_folder", '{"path":"src"}')
        made += [foveal.assistant("", call), foveal.result(call.id, f"{len(made)} files")]
    return made[:n]


def main() -> None:
    json.dump(chat_messages(int(sys.argv[1])), sys.stdout)


if __name__ == "__main__":
    main()
