"""Documents are read apart, within limits; whatever is wrong with one is a note and never an error."""

import io

import pytest

from foveal.context.files.read_options import ReadLimits

from .made import docx, pdf, xlsx, zipped

OFFICE = {"a.docx": docx("x"), "a.xlsx": xlsx([["x"]])}


def test_the_pages_of_a_pdf_are_read(read):
    """Each page with its number, in order."""
    pytest.importorskip("pypdf")
    found = read("a.pdf", pdf("first things", "second things"))
    assert found.text == "[page 1 of 2]\nfirst things\n\n[page 2 of 2]\nsecond things"
    assert found.is_whole
    assert "2 pages" in found.shown.split("\n")[0]


def test_a_word_document_is_read(read):
    """Its paragraphs, one a line."""
    pytest.importorskip("docx")
    assert read("a.docx", docx("Plan", "Ship it — 出货")).text == "Plan\nShip it — 出货"


def test_headings_and_tables_of_a_word_document_are_told(read):
    """Headings by their level, tables by their rows, in the order in which they stand."""
    word = pytest.importorskip("docx")
    document, out = word.Document(), io.BytesIO()
    document.add_heading("Costs", 2)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "rent", "900"
    document.add_paragraph("That is all.")
    document.save(out)
    assert read("a.docx", out.getvalue()).text == "## Costs\nrent | 900\nThat is all."


def test_a_spreadsheet_is_read(read):
    """Each sheet with its name and shape, cells between tabs."""
    pytest.importorskip("python_calamine")
    found = read("a.xlsx", xlsx([["item", "price"], ["tea", "3"]]))
    assert found.text == "[sheet Costs: 2 rows × 2 columns]\nitem\tprice\ntea\t3"


def test_slides_are_read_with_their_notes(read):
    """Each slide with its number, its texts and what the speaker wants to say."""
    slides = pytest.importorskip("pptx")
    deck, out = slides.Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Why", "Because"
    slide.notes_slide.notes_text_frame.text = "smile"
    deck.save(out)
    assert read("a.pptx", out.getvalue()).text == "[slide 1 of 1]\nWhy\nBecause\n[notes] smile"


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(("name", "data", "extra"), [("a.pdf", pdf("x"), "pdf"), ("a.docx", docx("x"), "office")])
def test_without_the_extra_a_document_is_still_attached(read, name, data, extra):
    """It is there by name, size and hash, and the note has the command that helps."""
    found = read(name, data)
    assert (found.text, found.size_bytes) == (None, len(data))
    assert f"pip install '.[{extra}]'" in found.shown


def test_a_format_without_a_reader_is_still_attached(read):
    """Old formats are named, not read."""
    found = read("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    assert "there is no reader for application/msword" in found.shown


@pytest.mark.parametrize("cut", [9, 200, 400])
def test_a_broken_pdf_is_a_note(read, cut):
    """Whatever is left of it, nothing is raised and the upload stands."""
    pytest.importorskip("pypdf")
    found = read("a.pdf", pdf("words")[:cut])
    assert (found.kind, found.text) == ("pdf", None)
    assert len(found.notes) == 1


@pytest.mark.parametrize("name", OFFICE)
def test_a_broken_office_document_is_a_note(read, name):
    """An archive with the right names and the wrong content."""
    pytest.importorskip("python_calamine")
    parts = dict.fromkeys(
        ["[Content_Types].xml", "_rels/.rels", "word/document.xml" if "docx" in name else "xl/workbook.xml"]
    )
    found = read(name, zipped(dict.fromkeys(parts, "<broken")))
    assert (found.kind, found.text) == ("office", None)
    assert "its text was not read" in found.shown


def test_an_office_bomb_is_not_opened(read):
    """What unpacks to more than the limit is refused by what its directory says."""
    pytest.importorskip("docx")
    found = read("a.docx", docx("x" * 100_000), limits=ReadLimits(unpacked_bytes=50_000))
    assert found.text is None
    assert "above the limit of 50,000" in found.shown


def test_time_is_limited(read):
    """A reader that is not done in time is stopped, and a note says so."""
    pytest.importorskip("pypdf")
    found = read("a.pdf", pdf("x"), limits=ReadLimits(seconds=0.0))
    assert "took more than 0 seconds" in found.shown


def test_memory_is_limited(read):
    """A reader that may take next to none cannot even start; the host goes on."""
    pytest.importorskip("pypdf")
    found = read("a.pdf", pdf("x"), limits=ReadLimits(memory_bytes=1 << 20))
    assert "its text was not read" in found.shown


def test_size_is_limited(read):
    """A document above the limit is not even handed to a reader."""
    pytest.importorskip("pypdf")
    assert "above the limit of 10" in read("a.pdf", pdf("x"), limits=ReadLimits(document_bytes=10)).shown


@pytest.mark.parametrize(
    ("limits", "said"), [(ReadLimits(pages=2), "first 2 were read"), (ReadLimits(characters=30), "first 30")]
)
def test_pages_and_characters_are_limited(read, limits, said):
    """What lies beyond is not read, and the note says how much was."""
    pytest.importorskip("pypdf")
    found = read("a.pdf", pdf("one", "two", "three"), limits=limits)
    assert said in found.shown
    assert "three" not in found.text


def test_a_document_without_text_says_so(read):
    """A scan is not mistaken for an empty page."""
    pytest.importorskip("pypdf")
    found = read("a.pdf", pdf("", ""))
    assert found.text is None
    assert "it holds no text; is it scanned?" in found.shown
