"""The kind of a file: by its first bytes, then by its name, with a note if the two disagree."""

from collections.abc import Sequence

from foveal.context.file_names import UNKNOWN, FileKind, FileType, type_by_name
from foveal.context.files.encodings import decode_text

HEAD_BYTES = 65_536
_TAR_MAGIC = 257
_PDF_WITHIN = 1_024  # readers accept a header anywhere in the first kilobyte
_WRITTEN: tuple[FileKind, ...] = ("text", "code", "table")
_SVG = "image/svg+xml"

_MAGIC: tuple[tuple[int, bytes, FileKind, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image", "image/png"),
    (0, b"\xff\xd8\xff", "image", "image/jpeg"),
    (0, b"GIF87a", "image", "image/gif"),
    (0, b"GIF89a", "image", "image/gif"),
    (8, b"WEBP", "image", "image/webp"),
    (0, b"II*\0", "image", "image/tiff"),
    (0, b"MM\0*", "image", "image/tiff"),
    (4, b"ftypheic", "image", "image/heic"),
    (4, b"ftypmif1", "image", "image/heic"),
    (4, b"ftypavif", "image", "image/avif"),
    (0, b"\0\0\1\0", "image", "image/x-icon"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "office", "application/x-ole-storage"),
    (0, b"\x1f\x8b", "archive", "application/gzip"),
    (0, b"BZh", "archive", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "archive", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "archive", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "archive", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "archive", "application/vnd.rar"),
    (_TAR_MAGIC, b"ustar", "archive", "application/x-tar"),
    (0, b"SQLite format 3\0", "unknown", "application/vnd.sqlite3"),
    (0, b"\x7fELF", "unknown", "application/x-executable"),
    (0, b"MZ", "unknown", "application/x-msdownload"),
    (0, b"ID3", "unknown", "audio/mpeg"),
    (0, b"OggS", "unknown", "audio/ogg"),
    (8, b"WAVE", "unknown", "audio/wav"),
    (4, b"ftyp", "unknown", "video/mp4"),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OFFICE_PARTS = (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx"))


def classify(name: str, head: bytes, members: Sequence[str] = ()) -> tuple[FileType, str]:
    """Return the type of a file by its beginning (`HEAD_BYTES` are enough) and by the names of its members if it is a ZIP.

    The second value is the difference between name and content, in words; empty if they agree.
    """
    named = type_by_name(name)
    found = _by_content(head, named, members)
    if named.kind == "unknown" or not head or found.kind == named.kind or {found.kind, named.kind} <= {*_WRITTEN}:
        return found, ""
    return found, f"the name says {named.media_type}, the content is {found.media_type}"


def _by_content(head: bytes, named: FileType, members: Sequence[str]) -> FileType:
    if head.startswith(_ZIP):
        return _by_members(head, named, members)
    if b"%PDF-" in head[:_PDF_WITHIN]:
        return FileType("pdf", "application/pdf")
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return FileType("image", "image/bmp")
    for at, magic, kind, media_type in _MAGIC:
        if head.startswith(magic, at):
            # The old office formats share one container: their type is by the name.
            return named if kind == named.kind == "office" else FileType(kind, media_type)
    written = decode_text(head[:HEAD_BYTES], is_cut=len(head) >= HEAD_BYTES)
    return UNKNOWN if written is None else _by_text(written.text, named)


def _by_members(head: bytes, named: FileType, members: Sequence[str]) -> FileType:
    if head[30:38] == b"mimetype":
        media_type = head[38:120].split(b"PK", 1)[0].decode("ascii", "replace")
        if media_type.startswith("application/vnd.oasis.opendocument."):
            return FileType("office", media_type)
    names = members or _early_members(head)
    if "[Content_Types].xml" in names:
        for part, suffix in _OFFICE_PARTS:
            if any(member.startswith(part) for member in names):
                exact = type_by_name(f"x.{suffix}")
                return named if named.kind == "office" and named.media_type.endswith("macroEnabled.12") else exact
    return named if named.kind == "archive" else FileType("archive", "application/zip")


def _early_members(head: bytes) -> list[str]:
    """Return the names of the members that begin in the head."""
    names: list[str] = []
    for piece in head.split(b"PK\x03\x04")[1:]:
        length = int.from_bytes(piece[22:24], "little")
        names.append(piece[26 : 26 + length].decode("utf-8", "replace"))
    return names


def _by_text(text: str, named: FileType) -> FileType:
    if named.kind in _WRITTEN:
        return named
    if text.startswith("#!"):
        return FileType("code", "text/x-script")
    if "<svg" in text[:1_000]:
        return FileType("text", _SVG)
    if (sign := separator(text)) is not None:
        return type_by_name("x.tsv" if sign == "\t" else "x.csv")
    return FileType("text", "text/plain")


def separator(text: str) -> str | None:
    """Return the separator of a table: a sign that each of the first lines holds equally often."""
    lines = [line for line in text[:20_000].split("\n")[:20] if line.strip()]
    lines = lines[:-1] if len(text) > 20_000 and len(lines) > 3 else lines
    for sign in ("\t", ",", ";", "|"):
        counts = {line.count(sign) for line in lines}
        if len(lines) >= 3 and len(counts) == 1 and min(counts) >= 1:
            return sign
    return None
