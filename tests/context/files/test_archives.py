"""An archive is listed from its own directory: bounded, never unpacked, never believed."""

import gzip
import io
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.context.files import archives
from foveal.context.files.archives import listing

from .made import tarred, zipped

MEMBERS = {"a.txt": b"x" * 10, "folder/b.bin": b"y" * 2_000, "n" * 180 + "/long.txt": b"z"}
TYPES = {
    "w": "application/x-tar",
    "w:gz": "application/gzip",
    "w:bz2": "application/x-bzip2",
    "w:xz": "application/x-xz",
}


def listed(data, media_type="application/zip", most=100):
    found = listing(io.BytesIO(data), media_type, most)
    assert found is not None
    return found


def test_a_zip_is_listed():
    """Names and sizes as the archive says them."""
    found = listed(zipped(MEMBERS))
    assert {member.name: member.size_bytes for member in found.members} == {n: len(d) for n, d in MEMBERS.items()}
    assert (found.count, found.unpacked_bytes, found.note) == (3, 2_011, "")


@pytest.mark.parametrize("mode", TYPES)
def test_a_tar_is_listed_through_its_compression(mode):
    """Plain and packed archives give the same names and sizes, long names included."""
    found = listed(tarred(MEMBERS, mode), TYPES[mode])
    assert {member.name: member.size_bytes for member in found.members} == {n: len(d) for n, d in MEMBERS.items()}


def test_more_members_than_are_listed_are_counted():
    """The list is short, the sums are whole."""
    found = listed(zipped({f"{n}.txt": b"12" for n in range(500)}), most=3)
    assert (len(found.members), found.count, found.unpacked_bytes) == (3, 500, 1_000)


def test_counting_has_an_end(monkeypatch):
    """An archive of a million members is not counted to its end."""
    monkeypatch.setattr(archives, "MOST_COUNTED", 50)
    found = listed(zipped({f"{n}.txt": b"" for n in range(60)}))
    assert (found.count, found.note) == (50, "counted as far as 50")


def test_a_bomb_is_told_by_what_it_says():
    """Ten gigabytes in a few kilobytes: the number is read, nothing is unpacked."""
    data = bytearray(zipped({"bomb": b"\0" * 10_000}))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<L", 4_000_000_000)
    assert listed(bytes(data)).unpacked_bytes == 4_000_000_000


def test_a_packed_tar_is_read_only_so_far(monkeypatch):
    """What has to be unpacked on the way to the next header is limited, and the listing says so."""
    monkeypatch.setattr(archives, "_MOST_UNPACKED_BYTES", 100_000)
    found = listed(tarred({"first": b"x", "bomb": bytes(5_000_000), "after": b"x"}, "w:gz"), "application/gzip")
    assert [member.name for member in found.members] == ["first", "bomb"]
    assert "read as far as" in found.note


def test_members_above_four_gigabytes_are_read():
    """The field that is added for them says their size."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("big", "w", force_zip64=True) as member:
        member.write(b"x" * 5)
    data = bytearray(out.getvalue())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = b"\xff" * 4
    data[at + 30 : at + 32] = struct.pack("<H", 12)
    name_end = at + 46 + 3
    data[name_end:name_end] = struct.pack("<2HQ", 1, 8, 5_000_000_000)
    end = data.rindex(b"PK\x05\x06")
    data[end + 12 : end + 16] = struct.pack("<L", end - at)
    assert listed(bytes(data)).unpacked_bytes == 5_000_000_000


@pytest.mark.parametrize("media_type", ["application/vnd.rar", "application/x-7z-compressed", "application/zstd"])
def test_other_archives_are_not_opened(media_type):
    """There is no listing, and nothing is raised."""
    assert listing(io.BytesIO(b"x" * 1_000), media_type, 100) is None


def test_a_packed_file_that_is_no_archive_has_no_listing():
    """A gzipped text is not mistaken for an archive."""
    assert listing(io.BytesIO(gzip.compress(b"words " * 500)), "application/gzip", 100) is None


def test_a_tar_that_breaks_off_says_so():
    """What was read is listed, and the damage is named."""
    data = bytearray(tarred({"a": b"x", "b": b"y", "c": b"z"}))
    data[1_024:1_100] = b"\xff" * 76
    found = listed(bytes(data), "application/x-tar")
    assert ([member.name for member in found.members], found.note.split(" after")[0]) == (
        ["a"],
        "the archive is damaged",
    )


def test_a_size_below_zero_ends_the_listing():
    """A header that would send the reader back and forth for ever is not followed."""
    data = bytearray(tarred({"a": b"x", "b": b"y"}))
    header = data[1_024:1_536]
    header[124:136] = b"\xff" * 12
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data[1_024:1_536] = header
    assert [member.name for member in listed(bytes(data), "application/x-tar").members] == ["a"]


@settings(max_examples=200)
@given(st.integers(0, 5_000), st.binary(min_size=1, max_size=40), st.sampled_from(["zip", *TYPES]))
def test_damage_anywhere_raises_nothing(at, patch, form):
    """Bytes overwritten at any place of any archive: a listing, or none."""
    data = bytearray(zipped(MEMBERS) if form == "zip" else tarred(MEMBERS, form))
    at %= len(data)
    data[at : at + len(patch)] = patch
    found = listing(io.BytesIO(data), TYPES.get(form, "application/zip"), 100)
    assert found is None or found.count >= 0
