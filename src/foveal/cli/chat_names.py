"""Names that a chat completes: commands after `/`, tools, skills and sub-agents after `@`, files after `#`.

A file that a message mentions is sent with it.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from foveal.agent.agent import Agent
from foveal.context.mentions import find

MOST_FILES = 2_000
"""Files that are looked at for completion: a terminal shows a dozen of them."""
MOST_FILE_BYTES = 100_000
"""The longest file that is sent with a message, about 25,000 tokens; of longer ones the agent reads what it needs."""

_WORD = re.compile(r"(?:^/|(?<!\S)[@#])[^\s@#]*$")
_FILE = re.compile(r"\n\n[^\n]+:\n`{3,}\n")
"""The beginning of a file in a message."""
_LEFT_OUT = frozenset({"node_modules", "__pycache__"})


def typed_name(line: str) -> str:
    """Return the name that somebody is typing at the end of a line, with its sign; empty if there is none."""
    found = _WORD.search(line)
    return found[0] if found else ""


def known_names(agent: Agent) -> list[str]:
    """Return everything that `@` can mention."""
    skills = agent.environment.skills if agent.environment else None
    return sorted({*agent.toolset, *agent.agents, *(skills.names if skills else ())})


def completions(typed: str, agent: Agent, folder: Path, commands: Iterable[str]) -> list[str]:
    """Return the names that a typed one can become, with their signs."""
    sign, name = typed[:1], typed[1:].lower()
    match sign:
        case "/":
            known = iter(commands)
        case "@":
            known = iter(known_names(agent))
        case "#":
            known = files_below(folder)
        case _:
            return []
    found = [one for one in known if name in one.lower()]
    return [f"{sign}{one}" for one in sorted(found, key=lambda one: (not one.lower().startswith(name), one))]


def files_below(folder: Path) -> Iterator[str]:
    """Yield the files of a folder, as paths from it, without hidden ones."""
    return islice(_files(folder), MOST_FILES)


def _files(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _LEFT_OUT)
        for name in sorted(files):
            if not name.startswith("."):
                yield (Path(place) / name).relative_to(folder).as_posix()


def with_files(text: str, folder: Path) -> tuple[str, list[str]]:
    """Return a message together with the files of the folder that it mentions, and their names.

    A name that is no text file below the folder, or one that is too long, stays a name.
    """
    loaded: dict[str, str] = {}
    for mention in find(text):
        if mention.sigil == "#" and (content := _content(folder, mention.name)) is not None:
            loaded[mention.name] = content
    parts = [f"{name}:\n{_fenced(content)}" for name, content in loaded.items()]
    return "\n\n".join([text, *parts]), list(loaded)


def without_files(text: str) -> str:
    """Return the words of a message without the files that were sent with it."""
    return _FILE.split(text, maxsplit=1)[0]


def _content(folder: Path, name: str) -> str | None:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file() or path.stat().st_size > MOST_FILE_BYTES:
        return None
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _fenced(content: str) -> str:
    """Return a text as a block of code whose fence does not occur in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", content)), default=0))
    return f"{fence}\n{content.rstrip()}\n{fence}"
