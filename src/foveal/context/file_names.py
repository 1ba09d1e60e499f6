"""Names of files: the type that an extension says.

There is one table of extensions. A file whose extension is not in it has an unknown type, and a neutral extension on disk.
"""

from typing import Literal, TypeAlias, cast

import msgspec

FileKind: TypeAlias = Literal["image", "pdf", "office", "text", "code", "table", "archive", "unknown"]


class FileType(msgspec.Struct, frozen=True):
    kind: FileKind
    media_type: str


UNKNOWN = FileType("unknown", "application/octet-stream")
_NEUTRAL = "bin"

_TABLE = """
image image/png png
image image/jpeg jpg jpeg
image image/gif gif
image image/webp webp
image image/bmp bmp
image image/tiff tif tiff
image image/x-icon ico
image image/heic heic heif
image image/avif avif
pdf application/pdf pdf
office application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
office application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
office application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
office application/vnd.ms-word.document.macroEnabled.12 docm
office application/vnd.ms-excel.sheet.macroEnabled.12 xlsm
office application/vnd.ms-excel.sheet.binary.macroEnabled.12 xlsb
office application/msword doc
office application/vnd.ms-excel xls
office application/vnd.ms-powerpoint ppt
office application/vnd.oasis.opendocument.text odt
office application/vnd.oasis.opendocument.spreadsheet ods
office application/vnd.oasis.opendocument.presentation odp
table text/csv csv
table text/tab-separated-values tsv tab
archive application/zip zip whl
archive application/java-archive jar
archive application/x-tar tar
archive application/gzip gz tgz
archive application/x-bzip2 bz2 tbz2
archive application/x-xz xz txz
archive application/zstd zst
archive application/x-7z-compressed 7z
archive application/vnd.rar rar
text text/plain txt text log rst srt tex ini cfg conf env properties
text text/markdown md markdown
text text/html html htm
text application/xml xml xsd
text application/json json ipynb geojson
text application/x-ndjson jsonl ndjson
text text/yaml yaml yml
text application/toml toml
text image/svg+xml svg
text text/x-diff diff patch
text message/rfc822 eml
text application/rtf rtf
text text/calendar ics
text text/vtt vtt
code text/x-python py pyi
code text/x-javascript js mjs cjs jsx
code text/x-typescript ts tsx
code text/x-java java
code text/x-kotlin kt kts
code text/x-scala scala
code text/x-go go
code text/x-rust rs
code text/x-c c h
code text/x-c++ cc cpp cxx hpp
code text/x-csharp cs
code text/x-ruby rb
code text/x-php php
code text/x-swift swift
code text/x-shell sh bash zsh
code text/x-powershell ps1
code text/x-sql sql
code text/x-r r
code text/x-lua lua
code text/x-perl pl pm
code text/x-elixir ex exs
code text/x-haskell hs
code text/x-dart dart
code text/x-zig zig
code text/x-terraform tf
code text/css css scss
code text/x-vue vue svelte
"""


def _types() -> dict[str, FileType]:
    rows = (line.split() for line in _TABLE.strip().splitlines())
    return {suffix: FileType(cast("FileKind", kind), media) for kind, media, *suffixes in rows for suffix in suffixes}


_TYPES = _types()


def type_by_name(name: str) -> FileType:
    """Return the type of the extension; `UNKNOWN` if the extension is not in the table."""
    return _TYPES.get(_suffix(name), UNKNOWN)


def suffix_of(media_type: str) -> str:
    """Return the usual extension of a type, without the dot; empty if the type is not in the table."""
    return next((suffix for suffix, known in _TYPES.items() if known.media_type == media_type), "")


def disk_suffix(name: str) -> str:
    """Return the extension of a file on disk: one of the table, or a neutral one."""
    suffix = _suffix(name)
    return f".{suffix if suffix in _TYPES else _NEUTRAL}"


def _suffix(name: str) -> str:
    return name[-16:].rpartition(".")[2].lower()
