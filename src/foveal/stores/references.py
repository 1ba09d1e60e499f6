"""The artifacts that entries name."""

from collections.abc import Iterable, Iterator

from foveal.stores.port import Row
from foveal.values.codec import decode
from foveal.values.entry import Body, Message, Stored, ToolResult
from foveal.values.errors import BadEntry

_TAG = b'"stored"'
"""Found in the bytes of every body that names an artifact: most rows need not be decoded."""


def artifacts_in(body: Body) -> Iterator[str]:
    """Yield the hashes of the artifacts that a body names."""
    if isinstance(body, Message):
        for part in body.parts:
            content = part.content if isinstance(part, ToolResult) else (part,)
            yield from (item.sha256 for item in content if isinstance(item, Stored))


def artifacts_named(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the hashes of the artifacts that these rows name. A row that is no entry names none."""
    for row in rows:
        if _TAG in row.payload:
            try:
                yield from artifacts_in(decode(row.payload))
            except BadEntry:
                continue
