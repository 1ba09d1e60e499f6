"""The process that reads one document: from standard input to one JSON answer. `documents` explains why it is a process.

    python extract.py FORMAT PAGES CHARACTERS SECONDS MEMORY_BYTES < document

It is run as a file and imports nothing of Foveal, so that it starts quickly and holds nothing that the document could reach.
The libraries are extras of Foveal: pypdf for PDF, python-docx, python-pptx and python-calamine for office documents.
"""

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from itertools import islice
from typing import Any

Piece = tuple[str, str]
"""A heading and the text below it: of a page, a slide or a sheet."""

_CELL_CHARACTERS = 2_000


def main(words: list[str]) -> int:
    name, *numbers = words
    pages, characters, seconds, memory_bytes = map(int, numbers)
    _confine(seconds, memory_bytes)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        total, pieces = _READERS[name](sys.stdin.buffer.read())
        answer = _joined(islice(pieces, pages), total=total, pages=pages, most=characters)
    except Exception as error:  # any exception of a parser on hostile bytes is an answer
        answer = {"note": f"its text was not read: {_plain(error)}"}
    json.dump(answer, sys.stdout)
    return 0


def _confine(seconds: int, memory_bytes: int) -> None:
    """Set limits that the kernel enforces: time, memory, and no file may be written."""
    with suppress(ImportError, ValueError, OSError):
        resource: Any = import_module("resource")  # Unix only
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _joined(pieces: Iterator[Piece], *, total: int, pages: int, most: int) -> dict[str, Any]:
    parts: list[str] = []
    size = read = 0
    note, is_empty = "", True
    for heading, text in pieces:
        is_empty = is_empty and not text.strip()
        part = f"{heading}\n{text.strip()}" if heading else text.strip()
        parts.append(part[: most - size])
        size, read = size + len(part), read + 1
        if size >= most:
            note = f"of its text, the first {most:,} characters were read"
            break
    if not note and total > pages:
        note = f"of its {total:,} pages, the first {read:,} were read"
    text = "\n\n".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if is_empty:
        return {"pages": total, "note": "it holds no text; is it scanned?"}
    return {"text": text, "pages": total, "note": note}


def _plain(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    said = " ".join(str(error).split())[:160]
    return f"{said or type(error).__name__}; is it damaged or protected?"


def _pdf(data: bytes) -> tuple[int, Iterator[Piece]]:
    pypdf: Any = import_module("pypdf")
    reader = pypdf.PdfReader(BytesIO(data), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is protected by a password")
    total = len(reader.pages)
    return total, ((f"[page {n + 1} of {total}]", _page(reader.pages, n)) for n in range(total))


def _page(pages: Any, number: int) -> str:
    try:
        return pages[number].extract_text()
    except MemoryError:
        raise
    except Exception as error:  # one broken page does not affect the others
        return f"[this page cannot be read: {type(error).__name__}]"


def _word(data: bytes) -> tuple[int, Iterator[Piece]]:
    document: Any = import_module("docx").Document(BytesIO(data))
    return 1, iter([("", "\n".join(_blocks(document)))])


def _blocks(document: Any) -> Iterator[str]:
    """Yield paragraphs and the rows of tables, in their order in the document."""
    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            for row in block.rows:
                yield " | ".join(" ".join(cell.text.split())[:_CELL_CHARACTERS] for cell in row.cells)
        else:
            style = block.style.name or "" if block.style is not None else ""
            level = style.removeprefix("Heading ")
            mark = "#" * int(level) + " " if level != style and level.isdecimal() else ""
            yield mark + block.text


def _slides(data: bytes) -> tuple[int, Iterator[Piece]]:
    slides: Any = import_module("pptx").Presentation(BytesIO(data)).slides
    total = len(slides)
    return total, ((f"[slide {n} of {total}]", "\n".join(_shapes(slide))) for n, slide in enumerate(slides, 1))


def _shapes(slide: Any) -> Iterator[str]:
    for shape in slide.shapes:
        if shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                yield " | ".join(" ".join(cell.text.split())[:_CELL_CHARACTERS] for cell in row.cells)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None and notes.text.strip():
        yield f"[notes] {notes.text}"


def _sheets(data: bytes) -> tuple[int, Iterator[Piece]]:
    book: Any = import_module("python_calamine").CalamineWorkbook.from_filelike(BytesIO(data))
    names: list[str] = list(book.sheet_names)
    return len(names), (_sheet(book, name) for name in names)


def _sheet(book: Any, name: str) -> Piece:
    rows: list[list[Any]] = book.get_sheet_by_name(name).to_python()
    width = max(map(len, rows), default=0)
    text = "\n".join("\t".join(_cell(value) for value in row).rstrip("\t") for row in rows)
    return f"[sheet {name}: {len(rows):,} rows × {width:,} columns]", text


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return " ".join(str(value).split())[:_CELL_CHARACTERS]


_READERS: dict[str, Callable[[bytes], tuple[int, Iterator[Piece]]]] = {
    "pdf": _pdf,
    "word": _word,
    "slides": _slides,
    "sheets": _sheets,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
