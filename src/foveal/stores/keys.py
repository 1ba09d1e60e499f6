"""Keys that wrap the data keys of sessions and artifacts: from a file, from the environment, or from a service.

Each session and each artifact is encrypted under a data key of its own, which is kept beside it, wrapped by one of these keys. A
service for keys (KMS) is any object with `wrap` and `unwrap`; the key itself need never leave it.
"""

import binascii
import os
import secrets
import stat
import threading
import time
from base64 import b64decode, urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foveal.values.errors import BadInput, KeyMissing, StoreError

KEY_BYTES = 32
"""Length of every key: AES-256."""
NONCE_BYTES = 12
REMEMBERED_S = 300.0
"""Time for which an unwrapped data key is remembered: a revoked key ends within it, and a busy session asks once in it."""
MOST_REMEMBERED = 8_192
"""Data keys that are remembered, of sessions and artifacts: about 2 MB."""
_ID_BYTES = 8
_URLSAFE = str.maketrans("+/", "-_")


class Keys(Protocol):
    """Wraps and unwraps data keys. The context is no secret; an unwrap with another one than the wrap's must fail."""

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Return up to 96 bytes of keys in a form that only `unwrap` can read, at most 450 bytes long."""
        ...

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the bytes that were wrapped; `StoreError` if the key is not there, was destroyed, or the context is another."""
        ...


class LocalKeys:
    """Keys of this process: the last one wraps, all of them unwrap, so that an old one stays while sessions are under it."""

    def __init__(self, text: str, origin: str) -> None:
        """Read keys in base64, separated by white space. `origin` names their place in messages."""
        self._origin = origin
        self._keys: dict[bytes, AESGCM] = {}
        self._newest = b""
        for number, word in enumerate(text.split(), start=1):
            try:
                key = b64decode(word, validate=True)
            except ValueError:  # of letters beyond ASCII, too
                key = b""
            if len(key) != KEY_BYTES:
                raise BadInput(
                    f"key {number} of {origin} is not {KEY_BYTES} bytes in base64; `openssl rand -base64 32` makes one"
                )
            self._newest = sha256(b"foveal key\0" + key).digest()[:_ID_BYTES]
            self._keys[self._newest] = AESGCM(key)
        if not self._keys:
            raise BadInput(f"{origin} holds no key; `openssl rand -base64 32` makes one")

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return self._newest + nonce + self._keys[self._newest].encrypt(nonce, data_key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        known = self._keys.get(wrapped[:_ID_BYTES])
        if known is None:
            raise KeyMissing(
                f"this was encrypted under the key {wrapped[:_ID_BYTES].hex()}, which is not among the {len(self._keys)} of "
                f"{self._origin} (`keys`, or $FOVEAL_KEYS). Add that key; if it was destroyed, so is everything that was under "
                "it."
            )
        try:
            return known.decrypt(wrapped[_ID_BYTES:][:NONCE_BYTES], wrapped[_ID_BYTES + NONCE_BYTES :], context)
        except InvalidTag:
            raise StoreError(
                f"a data key under the key {wrapped[:_ID_BYTES].hex()} was changed, or belongs to another session or artifact"
            ) from None


class RememberedKeys:
    """Keys that remember data keys for some minutes, so that a service is not asked for each read.

    A key that was destroyed at the service can be used here until then.
    """

    def __init__(self, inner: Keys, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._inner, self._clock_s = inner, clock_s
        self._known: OrderedDict[tuple[bytes, bytes], tuple[float, bytes]] = OrderedDict()
        self._gate = threading.Lock()

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        wrapped = self._inner.wrap(data_key, context)
        self._keep((wrapped, context), data_key)
        return wrapped

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        with self._gate:
            known = self._known.get((wrapped, context))
        if known is not None and self._clock_s() - known[0] < REMEMBERED_S:
            return known[1]
        plain = self._inner.unwrap(wrapped, context)
        self._keep((wrapped, context), plain)
        return plain

    def forget(self, context: bytes | None = None) -> None:
        """Forget the data keys of a context, or all of them."""
        with self._gate:
            for name in [name for name in self._known if context in (None, name[1])]:
                del self._known[name]

    def _keep(self, name: tuple[bytes, bytes], plain: bytes) -> None:
        with self._gate:
            self._known[name] = (self._clock_s(), plain)
            self._known.move_to_end(name)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)


def read_keys(place: str | Path) -> LocalKeys:
    """Read the keys of a file, or of an environment variable that is named as `env:NAME`."""
    text = str(place)
    if not text.strip():
        raise BadInput(
            "the place of keys is empty (`keys`, or $FOVEAL_KEYS); name a file that holds them, or env:NAME, or leave it out "
            "altogether for a store without keys"
        )
    if isinstance(place, str) and text.startswith("env:"):
        name = text.removeprefix("env:")
        if name not in os.environ:
            raise BadInput(f"the environment has no variable {name!r}, from which keys were to be read")
        return LocalKeys(os.environ[name], text)
    if any(map(_is_key, text.split())):
        raise BadInput(
            f"a key itself was given (not shown here: it is {len(text)} characters of base64) where the place of keys belongs; "
            "give the name of a file that holds it, or env:NAME with the name of a variable"
        )
    try:
        mode = Path(place).stat().st_mode
        if os.name == "posix" and stat.S_ISREG(mode) and mode & stat.S_IWOTH:
            raise BadInput(
                f"any user may write {text} (mode {stat.S_IMODE(mode):o}), and so choose the key of new sessions. "
                f"See whether its keys are yours, then: chmod 600 {text}"
            )
        return LocalKeys(Path(place).read_text("utf-8-sig"), text)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"keys cannot be read from {text}: {error}") from None


def _is_key(word: str) -> bool:
    """Return whether a word is a key, as it is or without its padding."""
    try:
        return len(urlsafe_b64decode(word.translate(_URLSAFE).rstrip("=") + "=")) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False
