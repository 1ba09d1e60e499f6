"""Diffs, tables, pages, stack traces, search results, listings, blobs and prose: what each keeps of its kind."""

import hashlib

import pytest

from foveal.text.guard import plain
from foveal.text.shorten import blob, diff, html_text, listing, prose, search, stack, table
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import LEVELS, trim

REF = "k3v9x2m1qa"


def count(text: str) -> int:
    return (len(text) + 3) // 4


def room(tokens: int, *focus: str) -> Allowance:
    return Allowance(tokens, count, REF, frozenset(focus))


def patch(files: int = 6) -> str:
    parts: list[str] = []
    for i in range(files):
        body = "".join(f" context line {n} of file {i}\n" for n in range(20))
        parts.append(
            f"diff --git a/src/part_{i}.py b/src/part_{i}.py\nindex 1a2b3c..4d5e6f 100644\n"
            f"--- a/src/part_{i}.py\n+++ b/src/part_{i}.py\n"
            f"@@ -1,22 +1,23 @@ def run_{i}():\n{body}-old_value_{i} = 1\n+new_value_{i} = 2\n+other_value_{i} = 3\n"
        )
    return "".join(parts)


def test_a_diff_names_every_file_with_its_counts():
    """Files and their counts stay, changed lines come before context."""
    assert diff.fits(patch(), "")
    shown = plain(diff.shrink(patch(), room(300)) or "")
    for i in range(6):
        assert f"+++ b/src/part_{i}.py [+2 -1]" in shown
    assert shown.count("_value_") > shown.count("context line")


def test_lock_files_do_not_crowd_out_the_change():
    """Lines of a generated file are worth little."""
    noise = "".join(f'+    "package-{i}": "sha512-{i * 7919:x}",\n' for i in range(400))
    name = "package-lock.json"
    lock = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1,400 @@\n{noise}"
    shown = plain(diff.shrink(lock + patch(2), room(250)) or "")
    assert "new_value_1" in shown
    assert "package-lock.json [+400 -0]" in shown


@pytest.mark.parametrize(
    ("sign", "hint"), [(",", "cat x.csv"), ("\t", "psql"), (" | ", "psql"), ("    ", "kubectl get pods")]
)
def test_a_table_keeps_its_header_its_ends_and_what_stands_out(sign, hint):
    """The header, the first and last rows, the largest number and the rare value are shown."""
    rows = [["id", "name", "amount", "state"]]
    rows += [[str(i), f"name{i}", str(100 + i % 9), "open"] for i in range(300)]
    rows[77][2], rows[188][3] = "98765", "cancelled"
    text = "\n".join(sign.join(row) for row in rows)
    assert table.fits(text, hint)
    shown = plain(table.shrink(text, room(200)) or "")
    for expected in (sign.join(rows[0]), "name0", "name299", "98765", "cancelled"):
        assert expected in shown
    assert "of 301 rows left out" in shown


def test_a_page_is_read_as_its_text():
    """Headings, items and cells are shown; scripts, styles, comments and tags are not."""
    items = "".join(f"<li>Item {i} with <b>bold</b> text &amp; more</li>" for i in range(200))
    text = (
        "<!doctype html><html><head><title>Pool guide</title><style>p { color: red }</style></head><body>"
        f"<script>var secret = '<p>no</p>';</script><!-- hidden --><h1>Connections</h1><ul>{items}</ul>"
        "<table><tr><th>Name</th><th>Size</th></tr><tr><td>idle</td><td>12</td></tr></table></body></html>"
    )
    assert html_text.fits(text, "fetch")
    shown = plain(html_text.shrink(text, room(200)) or "")
    for expected in ("Pool guide", "Connections", "Item 0 with bold text & more", "| idle | 12"):
        assert expected in shown
    for unwanted in ("secret", "color", "hidden", "<li>"):
        assert unwanted not in shown


def test_a_stack_trace_keeps_what_was_raised_and_the_own_frames():
    """The exception, its message and the user's frames come before those of libraries."""
    library = [
        f'  File "/usr/lib/python3.11/site-packages/web/core_{i}.py", line {i}, in call\n    next(request)'
        for i in range(80)
    ]
    own = '  File "/app/orders/views.py", line 41, in submit\n    order.place()'
    text = "\n".join(
        ("Traceback (most recent call last):", *library[:40], own, *library[40:], "orders.errors.OutOfStock: sku 4711")
    )
    text += "\nValueError: sku 4711 is gone"
    assert stack.fits(text, "bash")
    shown = plain(stack.shrink(text, room(150)) or "")
    assert "/app/orders/views.py" in shown
    assert "ValueError: sku 4711 is gone" in shown


@pytest.mark.parametrize(
    "frame",
    [
        "\tat com.acme.orders.Main.run(Main.java:12)",
        "    at Object.submit (/app/orders.js:41:7)",
        "   at Acme.Orders.Submit() in /app/Orders.cs:line 41",
        "\t/app/orders/main.go:41 +0x1d",
        "\tfrom /app/orders.rb:41:in `submit'",
    ],
)
def test_frames_of_many_languages_are_known(frame):
    """Traces of other languages are recognised as such."""
    text = "Exception in thread main\n" + "\n".join([frame] * 12) + "\njava.lang.IllegalStateException: closed"
    assert stack.fits(text, "bash")


def test_search_results_name_each_file_once():
    """Hits are grouped: the path once with its count, then lines without it; definitions before uses."""
    hits = [f"src/part_{i % 5}.py:{i}:    connect(host_{i})" for i in range(300)]
    hits.sort()
    hits[60] = "src/part_1.py:7:def connect(host):"
    text = "\n".join(hits)
    assert search.fits(text, "rg connect")
    shown = plain(search.shrink(text, room(200)) or "")
    for i in range(5):
        assert shown.count(f"src/part_{i}.py") == 1
    assert "7:def connect(host):" in shown
    assert "[60 hits]" in shown


def test_a_listing_counts_files_by_kind():
    """Folders are shown with the number of files of each kind, and a sample of names."""
    paths = [f"./src/app/module_{i}.py" for i in range(200)] + [f"./docs/page_{i}.md" for i in range(50)]
    text = "\n".join(paths)
    assert listing.fits(text, "find .")
    shown = plain(listing.shrink(text, room(150)) or "")
    assert "./src/app/ [200: 200 .py]" in shown
    assert "./docs/ [50: 50 .md]" in shown
    assert "module_0.py" in shown


def test_a_long_listing_keeps_folders():
    """The folders of an `ls -l` listing are kept, and the kinds of files are counted."""
    files = [f"-rw-r--r-- 1 root root {i} Jan  1 10:00 file_{i}.txt" for i in range(200)]
    text = "\n".join((*files[:100], "drwxr-xr-x 2 root root 4096 Jan  1 10:00 configuration", *files[100:]))
    assert listing.fits(text, "ls -l")
    shown = plain(listing.shrink(text, room(150)) or "")
    assert "configuration" in shown
    assert "200 .txt" in shown


@pytest.mark.parametrize(
    ("unit", "kind"), [("QUJDREVGR0hJSktM+/", "base64"), ("deadbeef01", "hex"), ("a=b;c(d){e};", "minified code")]
)
def test_a_blob_is_named_by_kind_size_and_hash(unit, kind):
    """A blob is shown by kind, length, hash and beginning."""
    text = unit * 2_000
    assert blob.fits(text, "cat")
    shown = plain(blob.shrink(text, room(120)) or "")
    assert shown.startswith(
        f"[{kind}: {len(text):,} characters, 1 lines, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    )
    assert text[:40] in shown


def test_a_blob_shows_what_was_asked_for():
    """A term deep inside one long line is shown with what surrounds it."""
    text = "var a=1;" * 5_000 + "needleFunction(17);" + "var b=2;" * 5_000
    shown = plain(blob.shrink(text, room(150, "needleFunction")) or "")
    assert "needleFunction(17);" in shown


def test_prose_keeps_headings_and_both_ends():
    """The headings, the beginning and the end of a document are shown."""
    sections = "\n".join(
        f"## Section {chr(65 + i)}\n\n" + "Plain words follow one another here.\n" * 20 for i in range(12)
    )
    text = f"# The guide\n\nFirst words.\n\n{sections}\nLast words."
    shown = plain(prose.shrink(text, room(250)) or "")
    for expected in ("# The guide", "First words.", "## Section A", "## Section L", "Last words."):
        assert expected in shown


def test_text_without_spaces_or_latin_letters_keeps_its_lines():
    """Chinese text is cut by tokens, with its lines and their indentation as they were."""
    lines = [f"    第{i}行：连接池保持连接打开，以便再次使用。" for i in range(200)]
    shown = plain(prose.shrink("\n".join(lines), room(200)) or "")
    assert lines[0] in shown
    assert lines[-1] in shown
    assert count(shown) > 100


def test_every_level_has_its_own_name():
    """Levels are told apart by name, and each text finds one."""
    names = [level.name for level in LEVELS]
    assert len(names) == len(set(names))
    for text, name in (
        (patch(), "diff"),
        ("x" * 9_000, "blob"),
        ("\n".join(f"a/b{i}.py:{i}:x" for i in range(99)), "search"),
    ):
        found = trim(text, "", room(100))
        assert found is not None
        assert found[0] == name


def test_no_room_is_no_stand_in():
    """An allowance of nothing gives no stand-in, and no error."""
    assert trim(patch(), "git diff", room(1)) is None
    assert trim("", "", room(100)) is None
