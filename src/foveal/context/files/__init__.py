"""Attached files: their kinds, and the excerpts that a model is shown.

    bytes ──► classify ──► read ──► Attachment(shown, text, image, …)

The content of a file decides its kind before its name does. A small text is shown whole; a larger one by its outline, with the
reference under which the rest can be recalled; a table by its shape and first rows; an archive by its listing, never unpacked;
an image scaled to the provider's limits. An unreadable file is shown by one line with the reason. Documents are read in a
process of their own, with limits on pages, time and memory: a broken one costs a note, not the host.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.context.files.attachment import attach, message_of, read_bytes
    from foveal.context.files.read_options import ReadOptions

__getattr__ = later(
    __name__,
    {
        "ReadOptions": "read_options",
        "attach": "attachment",
        "message_of": "attachment",
        "read_bytes": "attachment",
    },
)

__all__ = ["ReadOptions", "attach", "message_of", "read_bytes"]
