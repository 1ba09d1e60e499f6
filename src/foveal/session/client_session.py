"""A session for those who stand between a client and its provider: a gateway, or the transport of an SDK."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foveal.context.side_context import attach_bytes
from foveal.dialects.port import WireReply
from foveal.record.client_list import ListedMessage
from foveal.session.follow import Followed
from foveal.session.session import Session
from foveal.values.entry import Entry, Message

if TYPE_CHECKING:
    from foveal.context.files.attachment import Attachment


class ClientSession(Session):
    """A session that follows a client which is told less than the log holds."""

    @property
    def heard(self) -> Sequence[object]:
        """The keys of the list that was followed last."""
        return self._follower.keys

    def is_told_in(self, told: Followed) -> bool:
        """Return whether a list goes on from the one that was followed last, or is the beginning of it."""
        ids = self._follower.ids
        return bool(ids and told.entries) and (ids[-1] in told.entries or told.entries[-1] in ids)

    def follow_list(
        self, given: Sequence[ListedMessage], *, system: Sequence[Message], keys: Sequence[object]
    ) -> Followed:
        """Follow a list whose elements have these `keys`. `system` stands before the system messages that begin the list."""
        with self._journal.turn.of("follow"):
            return self._follower.follow(given, system or None, keys)

    def keep_reply(self, reply: WireReply, told: Message | None) -> None:
        """Keep a reply of which the client is told something else, or nothing: several rounds with own calls are one for it."""
        with self._journal.turn.of("append"):
            self._follower.keep_reply(self._journal.bodies_of_reply(reply), told)

    def attach_bytes(self, data: bytes, name: str) -> "tuple[Entry, Attachment]":
        """Give a file to the model whose bytes are at hand, and which is in no workspace."""
        return attach_bytes(data, name, self._injector, self._access)

    def sent_instead(self, tokens: int) -> None:
        """Note that a request of so many tokens in our count was sent in place of the prompt: the next usage is about it."""
        self._journal.estimated = tokens
