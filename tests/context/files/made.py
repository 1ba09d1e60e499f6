"""Files made by hand, byte for byte, so that no library is needed to make what a library reads."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from typing import Literal


def png(width, height):
    """One grey pixel after another; a large one packs to little."""

    def chunk(kind, data):
        return struct.pack(">L", len(data)) + kind + data + struct.pack(">L", zlib.crc32(kind + data))

    header = struct.pack(">2L5B", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def pdf(*pages):
    """A page for each text, with the table of places that readers look for."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    kids = []
    for text in pages:
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode("latin-1")
        kids.append(len(objects) + 1)
        font = b"<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources%b/Contents %d 0 R>>" % (font, len(objects) + 2)
        )
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(content), content))
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(kids), listed)
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%bendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return out + end % (len(objects) + 1, table, len(objects) + 1, len(out))


def zipped(members, **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, data in members.items():
            # Dated, so that the bytes, and with them the names of tests, are the same in every process.
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def tarred(members, mode: Literal["w", "w:gz", "w:bz2", "w:xz"] = "w"):
    if mode == "w:gz":
        return gzip.compress(tarred(members), mtime=0)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OPEN = "http://schemas.openxmlformats.org/"
_RELS = "application/vnd.openxmlformats-package.relationships+xml"
_TYPES = (
    f'{_XML}<Types xmlns="{_OPEN}package/2006/content-types"><Default Extension="rels" ContentType="{_RELS}"/>'
    '<Default Extension="xml" ContentType="application/xml"/>{}</Types>'
)
_RELATIONS = f'{_XML}<Relationships xmlns="{_OPEN}package/2006/relationships">{{}}</Relationships>'


def _override(part, kind):
    return f'<Override PartName="/{part}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'


def _relation(kind, target):
    return f'<Relationship Id="rId1" Type="{_OPEN}officeDocument/2006/relationships/{kind}" Target="{target}"/>'


def docx(*paragraphs):
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    space = f'xmlns:w="{_OPEN}wordprocessingml/2006/main"'
    return zipped(
        {
            "[Content_Types].xml": _TYPES.format(_override("word/document.xml", "wordprocessingml.document.main")),
            "_rels/.rels": _RELATIONS.format(_relation("officeDocument", "word/document.xml")),
            "word/document.xml": f"{_XML}<w:document {space}><w:body>{body}</w:body></w:document>",
        }
    )


def xlsx(rows):
    cells = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row) + "</row>" for row in rows
    )
    space = f'xmlns="{_OPEN}spreadsheetml/2006/main" xmlns:r="{_OPEN}officeDocument/2006/relationships"'
    sheet = '<sheet name="Costs" sheetId="1" r:id="rId1"/>'
    types = _override("xl/workbook.xml", "spreadsheetml.sheet.main") + _override(
        "xl/worksheets/sheet1.xml", "spreadsheetml.worksheet"
    )
    return zipped(
        {
            "[Content_Types].xml": _TYPES.format(types),
            "_rels/.rels": _RELATIONS.format(_relation("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f"{_XML}<workbook {space}><sheets>{sheet}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": _RELATIONS.format(_relation("worksheet", "worksheets/sheet1.xml")),
            "xl/worksheets/sheet1.xml": f"{_XML}<worksheet {space}><sheetData>{cells}</sheetData></worksheet>",
        }
    )
