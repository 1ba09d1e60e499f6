"""Files that somebody attaches: what they are, and what of them the model is shown.

    bytes ──► classify ──► read ──► Attachment(shown, text, image, …)

What a file is, its content says before its name does. A small text is shown whole; a larger one by its outline, with the
reference under which the rest can be recalled; a table by its shape and first rows; an archive by its listing, never unpacked;
an image scaled to what the provider takes. What cannot be read is shown by one line that says why. Documents are read in a
process of their own, with limits on pages, time and memory: a broken one costs a note, not the host.
"""

from foveal.context.files.attachment import TRUST, Attachment, attach, read_file
from foveal.context.files.kinds import Classified, classify
from foveal.context.files.reading import FileReading, ReadLimits

__all__ = [
    "TRUST",
    "Attachment",
    "Classified",
    "FileReading",
    "ReadLimits",
    "attach",
    "classify",
    "read_file",
]
