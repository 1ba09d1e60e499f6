"""The engine's own tags in a prompt, which carry the session's nonce.

    <foveal:reminder nonce="k3v9x2m1qa">
    Two todos are open.
    </foveal:reminder>

Safety rests on neutralising: no text of lower trust holds a live tag. The nonce is the second line of defence, for models
that repeat text of the prompt and for people who read it. A session has one nonce, because a new one each call would move
the cached prefix each call.
"""

import re
from base64 import b32encode
from collections.abc import Mapping
from hashlib import blake2b
from html import escape
from typing import Final

from foveal.text.guard.names import safe_name
from foveal.text.guard.neutral_text import neutralise, tags
from foveal.text.guard.normalise import normalise
from foveal.values.errors import BadInput

KINDS: Final = frozenset(("reminder", "summary"))
"""Kinds of the engine's own tags. All other kinds are fences, named by the host."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_FRAME: Final = re.compile(r"[<\[]\s{0,8}/?\s{0,8}foveal\b[^>\]\n]{0,80}", re.IGNORECASE)
_NO_LETTER: Final = re.compile(r"[^a-z]++")
_SECRET_BYTES: Final = 16
_ATTRIBUTE_CHARACTERS: Final = 400
"""Long enough for a path or a title, and too short for a document."""


def nonce(secret: bytes) -> str:
    """Return ten letters and digits that cannot be guessed without the session's secret: 50 bits, about six tokens."""
    if len(secret) < _SECRET_BYTES:
        raise BadInput(f"the session's secret has {len(secret)} bytes; give at least {_SECRET_BYTES} random ones.")
    return b32encode(blake2b(secret, digest_size=8, person=b"foveal:frame").digest())[:10].decode().lower()


def session_nonce(entry_id: str) -> str:
    """Return the nonce of a session of an earlier version, which has no secret: it is made of the id of its first entry."""
    return nonce(entry_id.encode("utf-8", "surrogatepass").ljust(_SECRET_BYTES, b"."))


def forged_tags(text: str) -> list[str]:
    """Return the texts that pose as a tag of ours, in any disguise: no honest summary holds one.

    An honest summary may well mention other tags (a chat template's, a harness's); they are neutralised where it is shown.
    """
    plain = [match.group() for match in _FRAME.finditer(text)]
    return plain or [tag for tag in tags(text) if "foveal" in _NO_LETTER.sub("", normalise(tag).text.casefold())]


def fence_kind(name: str) -> str:
    """Return the name if a host may use it for a fence; raise `BadInput` otherwise."""
    if not _NAME.fullmatch(name) or name in KINDS:
        taken = f" and none of the engine's own ({', '.join(sorted(KINDS))})"
        raise BadInput(f"{name[:80]!r} cannot name a fence: use 1 to 32 of a-z, 0-9 and '-', a letter first{taken}.")
    return name


def wrap(kind: str, text: str, *, nonce: str, attributes: Mapping[str, str] | None = None) -> str:
    """Return the text, neutralised, in a tag of ours; nothing if there is no text, so that no empty tag is left."""
    if kind not in KINDS:
        fence_kind(kind)
    if not text.strip():
        return ""
    pairs = [("nonce", nonce), *sorted((attributes or {}).items())]
    opening = " ".join((f"<foveal:{kind}", *(_attribute(name, value) for name, value in pairs)))
    return f"{opening}>\n{neutralise(text)}\n</foveal:{kind}>"


def _attribute(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name[:80]!r} cannot name an attribute: use 1 to 32 of a-z, 0-9 and '-', a letter first.")
    return f'{name}="{escape(safe_name(value, _ATTRIBUTE_CHARACTERS)) if value else ""}"'
