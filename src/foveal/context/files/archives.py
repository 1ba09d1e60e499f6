"""The members of an archive, from its own directory. Nothing is unpacked to disk, and no number in it is believed.

A ZIP archive lists its members at its end; that list is read up to a limit. A tar archive has no list: its headers are
read one after another, through the compression, up to a limit of bytes. Both are read here and not by the standard
library's classes, which trust the sizes that an archive declares.
"""

import bz2
import gzip
import lzma
import os
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import msgspec

from foveal.context.files.tarballs import Member, tar_members

MOST_COUNTED = 100_000
_MOST_DIRECTORY_BYTES = 16 << 20
_MOST_UNPACKED_BYTES = 32 << 20
_XZ_MEMORY_BYTES = 64 << 20
_CHUNK = 1 << 16

_END = struct.Struct("<4s4H2LH")
_END_WITHIN = _END.size + 0xFFFF
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_MEMBER = struct.Struct("<4s6H3L5H2L")
_IN_EXTRA = 0xFFFFFFFF


class Listing(msgspec.Struct, frozen=True):
    members: tuple[Member, ...]
    count: int
    """Members seen, listed or not."""
    unpacked_bytes: int
    note: str = ""
    """The reason why there may be more members."""


def listing(stream: BinaryIO, media_type: str, most: int) -> Listing | None:
    """Return the first `most` members, and the sums; None for an archive whose directory cannot be read here."""
    stream.seek(0)
    try:
        return _summed(_members(stream, media_type), most)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, struct.error):
        return None


def _summed(members: Iterator[Member | str], most: int) -> Listing:
    listed: list[Member] = []
    count = unpacked = 0
    note = ""
    for found in islice(members, MOST_COUNTED):
        if isinstance(found, str):
            note = found
            break
        count, unpacked = count + 1, unpacked + found.size_bytes
        if len(listed) < most:
            listed.append(found)
    else:
        if count == MOST_COUNTED:
            note = f"counted as far as {MOST_COUNTED:,}"
    return Listing(tuple(listed), count, unpacked, note)


def _members(stream: BinaryIO, media_type: str) -> Iterator[Member | str]:
    """Yield the members one by one; a text in place of the next one gives the reason why no more are read."""
    match media_type:
        case "application/zip" | "application/java-archive":
            yield from _zip_members(stream)
            return
        case "application/x-tar":
            chunks = _chunks(stream)
        case "application/gzip":
            chunks = _chunks(gzip.GzipFile(fileobj=stream))
        case "application/x-bzip2":
            chunks = _chunks(bz2.BZ2File(stream))
        case "application/x-xz":
            chunks = _xz(stream)
        case _:
            raise ValueError(media_type)
    # A plain tar is only skipped through; unpacking on the way costs time, so it has a limit.
    yield from tar_members(chunks, None if media_type == "application/x-tar" else _MOST_UNPACKED_BYTES)


def _chunks(stream: BinaryIO | gzip.GzipFile | bz2.BZ2File) -> Iterator[bytes]:
    return iter(lambda: stream.read(_CHUNK), b"")


def _xz(stream: BinaryIO) -> Iterator[bytes]:
    worker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)
    while not worker.eof:
        data = stream.read(_CHUNK) if worker.needs_input else b""
        if not data and worker.needs_input:
            return
        yield worker.decompress(data, _CHUNK)


def _zip_members(stream: BinaryIO) -> Iterator[Member | str]:
    start, size = _directory(stream)
    stream.seek(start)
    data = stream.read(min(size, _MOST_DIRECTORY_BYTES))
    at = 0
    while data.startswith(b"PK\x01\x02", at):
        if at + _MEMBER.size > len(data):
            break
        fields = _MEMBER.unpack_from(data, at)
        flags, size_bytes, name_length, extra, comment = fields[3], fields[9], fields[10], fields[11], fields[12]
        begin = at + _MEMBER.size
        name = data[begin : begin + name_length].decode("utf-8" if flags & 0x800 else "cp437", "replace")
        if size_bytes == _IN_EXTRA:
            size_bytes = _wide_size(data[begin + name_length : begin + name_length + extra])
        yield Member(name, size_bytes)
        at = begin + name_length + extra + comment
    if size > len(data):
        yield f"the directory of the archive has {size:,} bytes, of which {len(data):,} were read"
    elif at < size:
        yield "the directory of the archive is damaged"


def _directory(stream: BinaryIO) -> tuple[int, int]:
    """Return the offset and the size of the list of members."""
    end = stream.seek(0, os.SEEK_END)
    base = max(0, end - _END_WITHIN)
    stream.seek(base)
    tail = stream.read(_END_WITHIN)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0:
        raise ValueError("no directory")
    size = _END.unpack_from(tail, at)[5]
    stop = base + at
    if tail[max(0, at - _LOCATOR.size) : at].startswith(b"PK\x06\x07"):
        stop = int(_LOCATOR.unpack_from(tail, at - _LOCATOR.size)[2])
        stream.seek(stop)
        size = int(_END_64.unpack(stream.read(_END_64.size))[8])
    if not 0 <= size <= stop <= end:
        raise ValueError("a directory that lies outside of the file")
    return stop - size, size


def _wide_size(extra: bytes) -> int:
    """Return the size of a member above 4 GB, from the extra field for it."""
    at = 0
    while at + 12 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if tag == 1:
            return int.from_bytes(extra[at + 4 : at + 12], "little")
        at += 4 + length
    return _IN_EXTRA
