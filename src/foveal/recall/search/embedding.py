"""Embedders: texts as points, where texts of like meaning are near. An embedder is a name and a function; bring your own.

The one of the `embed` extra looks words up in a table and averages them, which is a thousand times quicker than a transformer
and lets a whole session be searched by meaning, not only the parts that its words had found already.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from foveal.values.codec import sendable
from foveal.values.errors import BadInput, MissingExtra

Vectors: TypeAlias = Sequence[Sequence[float]]


class Embedder(msgspec.Struct, frozen=True):
    """A function from texts to vectors, one for each text and all of one length."""

    name: str
    """Vectors are kept under this name: an embedder that gives other vectors needs another name."""
    embed: Callable[[list[str]], Vectors]
    most: int = 20_000
    """Pieces of text, of up to 500 characters each, after which one search embeds no further passage; later ones go on."""

    def __post_init__(self) -> None:
        if not self.name.strip() or self.most < 1:
            raise BadInput(f"an embedder has a name and embeds at least 1 piece; got {self.name!r} and {self.most}")


class QuantisedVector(msgspec.Struct, frozen=True):
    """A vector in a byte a dimension: a quarter of the space, and the same order of neighbours in all measurements."""

    data: bytes
    norm: float


def points(embedder: Embedder, texts: Sequence[str]) -> list[QuantisedVector]:
    """Return the texts as points. Any fault of the embedder is `BadInput` with its name."""
    try:
        vectors = embedder.embed([sendable(text) for text in texts])
        found = [_point(vector) for vector in vectors]
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise BadInput(f"the embedder {embedder.name!r} failed on {len(texts):,} texts ({what})") from error
    sizes = sorted({len(point.data) for point in found})
    if len(found) != len(texts) or len(sizes) != 1 or not sizes[0]:
        raise BadInput(
            f"the embedder {embedder.name!r} gave {len(found):,} vectors of {sizes} numbers for {len(texts):,} texts; "
            "it must give one for each, all of one length"
        )
    return found


def _point(vector: Sequence[float]) -> QuantisedVector:
    most = max(map(abs, vector), default=0.0)
    if not most:
        return QuantisedVector(bytes(len(vector)), 0.0)
    small = array("b", [round(number / most * 127) for number in vector])  # `round` refuses numbers that are not finite
    return QuantisedVector(small.tobytes(), math.sqrt(sum(number * number for number in small)))


@cache
def local_embedder() -> Embedder:
    """Return the embedder of the `embed` extra: English mostly, no network, 256 numbers a text. `MissingExtra` without it."""
    try:
        import wordllama  # noqa: PLC0415 - an extra # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("searching by meaning", "embed") from None
    package: Any = wordllama
    # Its own table of words lies beside its code; without this it would look for one in the network.
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)

    def embed(texts: list[str]) -> Vectors:
        return model.embed(texts).tolist()

    return Embedder(f"wordllama {package.__version__}", embed)
