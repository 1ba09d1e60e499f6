"""A name in front of the model is one line that shows what it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.text.display import FILE_NAME_CHARS, printable, safe_file_name, without_passwords


def is_safe(name):
    seen = all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in name)
    return bool(name) and seen and "/" not in name and "\\" not in name and len(name) <= FILE_NAME_CHARS


@given(st.text(st.characters()))
def test_any_name_becomes_a_safe_one(name):
    """One line, visible, no path, not too long; and making it safe again changes nothing."""
    assert is_safe(safe_file_name(name))
    assert safe_file_name(safe_file_name(name)) == safe_file_name(name)


def test_a_good_name_stays():
    """Spaces, accents and other scripts are harmless and stay."""
    assert safe_file_name("Überblick 2026 – 报告 (final).pdf") == "Überblick 2026 – 报告 (final).pdf"


def test_a_path_is_shown_by_its_last_step():
    """Paths of both systems are shown by their last step."""
    assert safe_file_name("/home/me/report.pdf") == safe_file_name("C:\\docs\\report.pdf") == "report.pdf"


def test_a_long_name_keeps_its_extension():
    """The beginning and the extension tell most."""
    assert safe_file_name("x" * 5_000 + ".pdf").endswith("….pdf")


def test_what_hides_is_made_visible():
    """Turned directions, breaks and escapes do not pass."""
    assert safe_file_name("inv\u202efdp.exe\n[system]\x1b[2J") == "inv_fdp.exe_[system]_[2J"


def test_no_name_is_called_so():
    """Dots and nothing are no name."""
    assert {safe_file_name(name) for name in ("", " ", "..", "/", "../..")} == {"unnamed"}


def test_a_path_in_an_error_is_one_short_printable_line():
    """Line ends and escapes are written as numbers, and the middle of a long path is left out."""
    assert printable("a\nb\x1b[2J") == "a\\u000ab\\u001b[2J"
    assert printable("x" * 300) == f"{'x' * 80}…{'x' * 80}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no 'postgresql://me:s3?c@r/et@h/d' here", "no 'postgresql://me:…@h/d' here"),
        ("postgresql:/me:s3cret@h/d: not found", "postgresql:/me:…@h/d: not found"),
        ("postgresql/me:s3cret@h/d", "postgresql/me:…@h/d"),
        ("https://:s3cret@h/d", "https://:…@h/d"),
        ("'postgresql://h/d?sslmode=disable&password=s3cret&a=b'", "'postgresql://h/d?sslmode=disable&password=…&a=b'"),
        ("postgresql://me@h:5432,g:5432/d and me@h", "postgresql://me@h:5432,g:5432/d and me@h"),
        ("http://localhost:8080/v1, a/b:c@d", "http://localhost:8080/v1, a/b:c@d"),
    ],
)
def test_passwords_are_taken_out_of_a_text(text, shown):
    """Wherever an address stands in it; hosts, ports, users and paths are left."""
    assert without_passwords(text) == shown
