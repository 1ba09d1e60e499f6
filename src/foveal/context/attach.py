"""A file in front of the model: kept in the session's workspace, read, and shown as its kind allows."""

from os import PathLike

import msgspec

from foveal.context.files import Attachment, attach
from foveal.context.reminders import Upload
from foveal.context.workspace import Workspace
from foveal.models.counters import ModelCounter
from foveal.stores.large_results import keep_stream
from foveal.stores.port import Store
from foveal.text.guard import neutralise
from foveal.values.codec import sendable
from foveal.values.entry import Message, Stored, Text
from foveal.values.errors import BadInput
from foveal.values.shown import short_ref


def attached(
    workspace: Workspace | None,
    path: str | PathLike[str],
    entry_id: str,
    counter: ModelCounter,
    store: Store,
    *,
    guard: bool,
    name: str | None = None,
) -> tuple[Attachment, Message]:
    """What is to be known of the file, and the message that shows it. Its whole text stands behind the entry's reference."""
    if workspace is None:
        raise BadInput("this session has no workspace to keep files in; give it Environment(workspace=…)")
    found = attach(
        workspace,
        path,
        provider_family=counter.family,
        count=counter.counter.count,
        ref=short_ref(entry_id),
        name=name,
    )
    first: Text | Stored = Text(found.shown)
    if found.text is not None and not found.is_whole:
        stored = keep_stream(store, [found.text.encode("utf-8", "surrogatepass")])
        # What is shown of it is the file's word, and not looked at again: it is made harmless here.
        shown = sendable(found.shown)
        first = msgspec.structs.replace(stored, shown=neutralise(shown) if guard else shown)
    return found, Message("user", (first, found.image) if found.image else (first,))


def upload_of(found: Attachment, entry_id: str) -> Upload:
    """What the next call is told of a file."""
    return Upload(found.name, found.kind, found.size_bytes, short_ref(entry_id))
