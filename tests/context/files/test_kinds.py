"""What a file is, by content first and by name second."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.context.files.kinds import classify

from .made import docx, pdf, png, tarred, xlsx, zipped

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


@pytest.mark.parametrize(
    ("name", "head", "kind", "media_type"),
    [
        ("a.png", png(1, 1), "image", "image/png"),
        ("noname", b"\xff\xd8\xff\xe0" + bytes(20), "image", "image/jpeg"),
        ("a.webp", b"RIFF\x10\0\0\0WEBPVP8 ", "image", "image/webp"),
        ("a.pdf", pdf("x"), "pdf", "application/pdf"),
        ("a.pdf", b"\n\njunk" + pdf("x"), "pdf", "application/pdf"),
        ("a.docx", docx("x"), "office", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("noname", xlsx([["x"]]), "office", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.docm", docx("x"), "office", "application/vnd.ms-word.document.macroEnabled.12"),
        ("a.xls", OLE, "office", "application/vnd.ms-excel"),
        ("a.zip", zipped({"a": "x"}), "archive", "application/zip"),
        ("a.jar", zipped({"a": "x"}), "archive", "application/java-archive"),
        ("a.tar", tarred({"a": b"x"}), "archive", "application/x-tar"),
        ("a.tgz", tarred({"a": b"x"}, "w:gz"), "archive", "application/gzip"),
        ("a.txt", b"plain words", "text", "text/plain"),
        ("a.py", b"import os\n", "code", "text/x-python"),
        ("run", b"#!/bin/sh\nls\n", "code", "text/x-script"),
        ("a.csv", b"a,b\n1,2\n", "table", "text/csv"),
        ("noname", b"a\tb\n1\t2\n3\t4\n", "table", "text/tab-separated-values"),
        ("a.txt", codecs.BOM_UTF16_LE + "words".encode("utf-16-le"), "text", "text/plain"),
        ("a.txt", "some longer words".encode("utf-16-be"), "text", "text/plain"),
        ("a.bin", bytes(range(256)), "unknown", "application/octet-stream"),
        ("a.exe", b"MZ\x90\0" + bytes(60), "unknown", "application/x-msdownload"),
    ],
)
def test_a_file_is_what_its_content_says(name, head, kind, media_type):
    """The content decides; the name speaks only where the content leaves it open. Neither contradicts the other here."""
    found, disagreement = classify(name, head)
    assert (found.kind, found.media_type, disagreement) == (kind, media_type, "")


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("photo.png", zipped({"a": "x"}), "archive"),
        ("report.pdf", b"just words", "text"),
        ("notes.txt", png(1, 1), "image"),
        ("data.zip", b"\x7fELF" + bytes(60), "unknown"),
        ("plan.docx", pdf("x"), "pdf"),
        ("cover.jpg", docx("x"), "office"),
        ("plan.docx", zipped({"a": "x"}), "archive"),
    ],
)
def test_a_name_that_lies_is_reported(name, head, kind):
    """The content wins, and the difference is said in words."""
    found, disagreement = classify(name, head)
    assert found.kind == kind
    assert found.media_type in disagreement


def test_what_is_an_archive_is_told_by_its_members():
    """Where the list of members is known, it decides: the beginning of an archive may show other names first."""
    head = zipped({"docs/readme.txt": "x"})
    found, _ = classify("plan.docx", head, ["docs/readme.txt", "[Content_Types].xml", "word/document.xml"])
    assert found.kind == "office"


def test_an_open_document_says_its_type_itself():
    """The first member of such a file is its type, unpacked."""
    head = b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.textPK\x03\x04"
    assert classify("a.odt", head)[0].media_type == "application/vnd.oasis.opendocument.text"


def test_code_text_and_tables_do_not_contradict_each_other():
    """All three are writing: a name of one kind with the content of another is no lie."""
    assert classify("a.py", b"a,b\n1,2\n3,4\n")[1] == ""


def test_an_empty_file_is_what_its_name_says():
    """No content contradicts no name."""
    assert classify("a.png", b"")[1] == ""


@given(st.text(), st.binary(max_size=3_000))
def test_any_bytes_under_any_name_are_something(name, head):
    """Nothing is raised, whatever the name and the bytes."""
    assert classify(name, head)[0].media_type
