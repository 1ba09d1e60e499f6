"""A model of the prompt cache: how much of each request its provider would have read from the cache, and the bill.

A request is a row of blocks in the order in which providers read it: tools, system prompt, messages. The blocks of all
requests to one model form a tree, so that a request costs the work of its new blocks alone. The rules (smallest prefix, step,
marks) are those of the catalogue. Two facts of life are left out: nothing expires, and every call reaches the same machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, NamedTuple, cast

import msgspec

from foveal.dialects.json_values import fields
from foveal.dialects.wire_request import drop_fields
from foveal.models.catalogue import cache_rules, find

LOOK_BACK_BLOCKS = 20
"""Blocks before a mark in which Anthropic looks for an earlier one; the caching guide's number."""

MEDIA_TOKENS = 1_500
"""Tokens of an image or a file, whatever its size: about the most that the providers charge for a picture."""

_MEDIA_CHARS = 2_000  # shorter strings of base64 are signatures and the like, and count as text
_COMPARED = 32  # siblings whose text is compared with a block that none of them equals; the newest ones
_PROVIDERS = {"anthropic": "anthropic", "gemini": "google", "openai_chat": "openai", "openai_responses": "openai"}

_encode = msgspec.json.Encoder().encode


class PromptBlock(NamedTuple):
    """A block of a request as the cache compares it, without its mark."""

    role: str
    """`tools`, `system`, or the role of its message."""
    data: bytes
    value: object
    is_marked: bool


@dataclass(frozen=True)
class CallUsage:
    """The prompt of one answered call, in tokens as the provider counts."""

    conversation: str
    tokens: int
    """All of the prompt, cached or not."""
    cached: int = 0
    """Tokens that were read from the cache."""
    written: int = 0
    """Tokens that were written to the cache, where the provider reports them."""


@dataclass(frozen=True)
class InputBill:
    """The prompts of some calls, added up by price."""

    calls: int
    input: int
    """Tokens at the full price."""
    cached: int
    written: int

    @property
    def tokens(self) -> int:
        """All tokens of all prompts."""
        return self.input + self.cached + self.written

    def cost(self, *, read: float = 0.1, write: float = 1.25) -> float:
        """Return the price in full input tokens. The defaults are Anthropic's multipliers; OpenAI and Gemini write for 1."""
        return self.input + read * self.cached + write * self.written


def add_up(usages: Iterable[CallUsage]) -> InputBill:
    """Return the bill of these calls."""
    known = list(usages)
    cached, written = sum(one.cached for one in known), sum(one.written for one in known)
    return InputBill(len(known), sum(one.tokens for one in known) - cached - written, cached, written)


def prompt_blocks(dialect: str, body: Mapping[str, Any]) -> list[PromptBlock]:
    """Return the blocks of a request body in the order in which the provider caches them."""
    match dialect:
        case "anthropic":
            blocks = [*_each("tools", body.get("tools")), *_each("system", body.get("system"))]
            for message in _list(body.get("messages")):
                blocks += _each(str(message.get("role")), message.get("content"))
            if body.get("cache_control") and blocks:  # marks the last block by itself
                blocks[-1] = blocks[-1]._replace(is_marked=True)
            return blocks
        case "gemini":
            system: Mapping[str, Any] = body.get("systemInstruction") or {}
            blocks = [*_each("system", system.get("parts")), *_each("tools", body.get("tools"))]
            for content in _list(body.get("contents")):
                blocks += _each(str(content.get("role") or "user"), content.get("parts"))
            return blocks
        case "openai_responses":
            heads = [*_each("tools", body.get("tools")), *_each("system", body.get("instructions"))]
            return [*heads, *(one for item in _list(body.get("input")) for one in _each(_role(item), [item]))]
        case _:
            messages = (one for item in _list(body.get("messages")) for one in _each(_role(item), [item]))
            return [*_each("tools", body.get("tools")), *messages]


def _role(item: Mapping[str, Any]) -> str:
    role = str(item.get("role") or item.get("type"))
    return "system" if role == "developer" else role


def _list(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; a text is one message of the user."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items: list[object] = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _each(role: str, value: object) -> Iterator[PromptBlock]:
    """Yield the blocks of a text or a list. A text is the same as a list with one block of text."""
    if not value:
        return
    blocks: list[object] = cast("list[object]", value) if isinstance(value, list) else [{"type": "text", "text": value}]
    for block in blocks:
        is_marked = bool(fields(block).get("cache_control"))
        plain = drop_fields(fields(block), "cache_control") if is_marked else block
        yield PromptBlock(role, b"%b\0%b" % (role.encode(), _encode(plain)), plain, is_marked)


def text_tokens(value: object, count: Callable[[str], int]) -> int:
    """Return the tokens of every string of a JSON value, with a flat rate for media."""
    match value:
        case str():
            is_media = len(value) > _MEDIA_CHARS and (value.startswith("data:") or _looks_encoded(value))
            return MEDIA_TOKENS if is_media else count(value)
        case dict():
            return sum(text_tokens(item, count) for item in cast("dict[str, Any]", value).values())
        case list():
            return sum(text_tokens(item, count) for item in cast("list[Any]", value))
        case _:
            return 0


def _looks_encoded(text: str) -> bool:
    head = text[:_MEDIA_CHARS]
    return (
        head.isascii() and not any(one.isspace() for one in head) and head.replace("+", "").replace("/", "").isalnum()
    )


@dataclass(slots=True)
class _Place:
    """The place in the tree behind a block: everything that was sent up to there."""

    tokens: int = 0
    """Tokens of the last block."""
    is_written: bool = False
    """Whether a marked prefix of some call ended here."""
    after: dict[bytes, "_Place"] = field(default_factory=dict[bytes, "_Place"])


class PrefixCache:
    """Remembers the prompts of all calls and reckons the share of each that its provider would have cached."""

    def __init__(self, count: Callable[[str], int], factor: float = 1.0) -> None:
        self._count = count
        self._factor = factor
        self._roots: dict[tuple[str, str], _Place] = {}

    def sizes(self, dialect: str, model: str, blocks: Sequence[PromptBlock]) -> list[int]:
        """Return the tokens of each block as counted; blocks that an earlier prompt began with are known."""
        place: _Place | None = self._roots.get((dialect, model))
        found: list[int] = []
        for block in blocks:
            place = place.after.get(block.data) if place else None
            found.append(place.tokens if place else text_tokens(block.value, self._count))
        return found

    def total(self, sizes: Iterable[int]) -> int:
        """Return the tokens that the provider reports for this many counted ones; one at least."""
        return max(1, round(sum(sizes) * self._factor))

    def take(self, dialect: str, model: str, blocks: Sequence[PromptBlock], sizes: Sequence[int]) -> tuple[int, int]:
        """Remember a prompt and return the tokens that are read from the cache and written to it."""
        root = self._roots.setdefault((dialect, model), _Place())
        facts = find(model)
        rules = cache_rules(_PROVIDERS[dialect], model)
        least = facts.cache_minimum if facts.known else rules.minimum_tokens
        ends = [self.total([size]) if size else 0 for size in accumulate(sizes)]
        if dialect == "anthropic":
            return self._by_marks(_path(root, blocks, sizes), blocks, ends, least)
        shared = min(self._shared(root, blocks, sizes), self.total(sizes) - 1)  # the last token is always read
        _path(root, blocks, sizes)
        return (shared // rules.block_tokens * rules.block_tokens if shared >= least else 0), 0

    def _shared(self, root: _Place, blocks: Sequence[PromptBlock], sizes: Sequence[int]) -> int:
        """Return the tokens that the prompt has in common with the beginning of an earlier one."""
        place, known = root, 0.0
        for block, size in zip(blocks, sizes, strict=True):
            further = place.after.get(block.data)
            if further is None:
                newest = islice(reversed(place.after), _COMPARED)
                same = max((_common_bytes(block.data, other) for other in newest), default=0)
                known += size * same / len(block.data)
                break
            place, known = further, known + size
        return int(known * self._factor)

    @staticmethod
    def _by_marks(
        path: Sequence[_Place], blocks: Sequence[PromptBlock], ends: Sequence[int], least: int
    ) -> tuple[int, int]:
        """Return the tokens that are read and written, and remember the places of the marks as written."""
        marks = [i for i, block in enumerate(blocks) if block.is_marked and ends[i] >= least]
        seen = (i for mark in marks for i in range(max(0, mark - LOOK_BACK_BLOCKS), mark + 1) if path[i].is_written)
        read = max((ends[i] for i in seen), default=0)
        for mark in marks:
            path[mark].is_written = True
        return read, max(0, ends[marks[-1]] - read) if marks else 0


def _path(root: _Place, blocks: Sequence[PromptBlock], sizes: Sequence[int]) -> list[_Place]:
    """Return the places behind each block, made where they are new."""
    place, path = root, list[_Place]()
    for block, size in zip(blocks, sizes, strict=True):
        further = place.after.get(block.data)
        if further is None:
            further = place.after[block.data] = _Place(size)
        place = further
        path.append(place)
    return path


def _common_bytes(one: bytes, other: bytes) -> int:
    """Return the length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
