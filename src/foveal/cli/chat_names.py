"""Names that a chat completes: commands after `/`, tools, skills and sub-agents after `@`, files after `#`.

A file that a message mentions is sent with it: a text in the message, an image or a document as an attachment.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from foveal.agent.agent import Agent
from foveal.context.files.kinds import HEAD_BYTES, classify
from foveal.context.mentions import find

MOST_FILES = 2_000
"""Files that are looked at for completion: a terminal shows a dozen of them."""
MOST_FILE_BYTES = 100_000
"""The longest text that is part of a message, about 25,000 tokens; a longer one is attached, by its outline."""

_WORD = re.compile(r"(?:^/|(?<!\S)[@#])[^\s@#]*$")
_FILE = re.compile(r"\n\n([^\n]+):\n`{3,}\n")
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


class FilledMessage(NamedTuple):
    """A message with the texts that it mentions, and the names of the files that it mentions."""

    text: str
    inside: tuple[str, ...] = ()
    """Texts that are part of it."""
    beside: tuple[str, ...] = ()
    """Images, documents and long texts, to be attached."""
    unsent: tuple[str, ...] = ()
    """The reasons for which a mentioned file does not come with it."""


def with_files(text: str, folder: Path) -> FilledMessage:
    """Return a message together with the files of the folder that it mentions.

    A name that is no file below the folder, or one of a type that no model can be shown, stays a name, and is told.
    """
    loaded: dict[str, str | None] = {}
    unsent: dict[str, str] = {}
    for name in dict.fromkeys(mention.name for mention in find(text) if mention.sigil == "#"):
        if reason := _unsent(name, folder):
            unsent[name] = reason
        else:
            loaded[name] = _content(folder / name)
    inside = {name: content for name, content in loaded.items() if content is not None}
    beside = (name for name, content in loaded.items() if content is None)
    parts = [f"{name}:\n{_fenced(content)}" for name, content in inside.items()]
    return FilledMessage("\n\n".join([text, *parts]), tuple(inside), tuple(beside), tuple(unsent.values()))


def _unsent(name: str, folder: Path) -> str:
    """Return the reason for which a mentioned name is not sent as a file; empty if it is."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        return f"{name} is not below the folder {folder.resolve()}"
    if not path.is_file():
        return f"there is no file {name}"
    return "" if _content(path) is not None or _is_shown(path) else f"no model can be shown a file such as {name}"


def without_files(text: str) -> str:
    """Return the words of a message without the files that were sent with it: those that the words name. Blocks that somebody
    has typed are words."""
    for found in _FILE.finditer(text):
        if f"#{found[1]}" in text[: found.start()]:
            return text[: found.start()]
    return text


def _content(path: Path) -> str | None:
    """Return the text of a file; None for a long one, and for one that is no text."""
    try:
        return path.read_text("utf-8") if path.stat().st_size <= MOST_FILE_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def _is_shown(path: Path) -> bool:
    """Return whether a file is of a type that a model can be shown."""
    try:
        with path.open("rb") as stream:
            return classify(path.name, stream.read(HEAD_BYTES))[0].kind != "unknown"
    except OSError:
        return False


def _fenced(content: str) -> str:
    """Return a text as a block of code whose fence does not occur in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", content)), default=0))
    return f"{fence}\n{content.rstrip()}\n{fence}"
