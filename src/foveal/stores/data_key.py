"""The data key of one session: payloads, snapshots and notes are encrypted under it, with AES-GCM.

A retry of an append must give the same bytes, by which a store knows it. So the nonce of a payload is a keyed hash of the entry's
id and its payload: it is the same only if both are, and then there is nothing to tell them apart by.
"""

import hmac
import secrets
from base64 import b64decode, b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foveal.stores.format import ENCRYPTED, ENVELOPE
from foveal.stores.keys import KEY_BYTES, NONCE_BYTES, Keys


class DataKey:
    """The key of one session, and the secret that the store would keep without encryption."""

    def __init__(self, key: bytes, secret: bytes) -> None:
        self.secret = secret
        self._entries, self._views, self._notes = (AESGCM(_derived(key, use)) for use in (b"entry", b"view", b"note"))
        self._nonces = _derived(key, b"nonce")

    def seal(self, entry: str, payload: bytes) -> bytes:
        """Return the payload of an entry, encrypted: the same bytes each time."""
        name = entry.encode("utf-8", "surrogatepass")
        nonce = hmac.digest(self._nonces, len(name).to_bytes(4) + name + payload, "sha256")[:NONCE_BYTES]
        return ENCRYPTED + nonce + self._entries.encrypt(nonce, payload, name)

    def unseal(self, entry: str, data: bytes) -> bytes:
        """Return the payload of an entry; `InvalidTag` if it is not under this key."""
        if not data.startswith(ENCRYPTED):
            raise InvalidTag
        start = len(ENCRYPTED) + NONCE_BYTES
        return self._entries.decrypt(data[len(ENCRYPTED) : start], data[start:], entry.encode())

    def seal_view(self, view: bytes) -> bytes:
        return _encrypt(self._views, view)

    def unseal_view(self, data: bytes) -> bytes:
        return _decrypt(self._views, data)

    def seal_note(self, key: str, text: str) -> str:
        return b64encode(_encrypt(self._notes, text.encode(), key.encode())).decode()

    def unseal_note(self, key: str, text: str) -> str:
        return _decrypt(self._notes, b64decode(text), key.encode()).decode()


def new_envelope(keys: Keys, context: bytes, secret: bytes) -> bytes:
    """Return a new data key with a secret, wrapped, for a store to keep in the place of the secret."""
    return ENVELOPE + keys.wrap(secrets.token_bytes(KEY_BYTES) + secret, context)


def open_envelope(keys: Keys, context: bytes, kept: bytes) -> DataKey | None:
    """Return the data key of a session whose store keeps this as its secret; None if the session is not encrypted."""
    if not kept.startswith(ENVELOPE):
        return None
    plain = keys.unwrap(kept.removeprefix(ENVELOPE), context)
    return DataKey(plain[:KEY_BYTES], plain[KEY_BYTES:])


def _derived(key: bytes, use: bytes) -> bytes:
    return hmac.digest(key, b"foveal " + use, "sha256")


def _encrypt(cipher: AESGCM, data: bytes, context: bytes = b"") -> bytes:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, data, context)


def _decrypt(cipher: AESGCM, data: bytes, context: bytes = b"") -> bytes:
    return cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], context)
