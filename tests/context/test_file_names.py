"""A name in front of the model is one line that shows what it is."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from foveal.context.file_names import MOST_CHARACTERS, safe_name


def is_safe(name):
    seen = all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in name)
    return bool(name) and seen and "/" not in name and "\\" not in name and len(name) <= MOST_CHARACTERS


@given(st.text(st.characters()))
def test_any_name_becomes_a_safe_one(name):
    """One line, visible, no path, not too long; and making it safe again changes nothing."""
    assert is_safe(safe_name(name))
    assert safe_name(safe_name(name)) == safe_name(name)


def test_a_good_name_stays():
    """Spaces, accents and other writing are nobody's harm."""
    assert safe_name("Überblick 2026 – 报告 (final).pdf") == "Überblick 2026 – 报告 (final).pdf"


def test_a_path_is_shown_by_its_last_step():
    """Of both systems' paths only the file is named."""
    assert safe_name("/home/me/report.pdf") == safe_name("C:\\docs\\report.pdf") == "report.pdf"


def test_a_long_name_keeps_its_extension():
    """The beginning and the extension tell most."""
    assert safe_name("x" * 5_000 + ".pdf").endswith("….pdf")


def test_what_hides_is_made_visible():
    """Turned directions, breaks and escapes do not pass."""
    assert safe_name("inv\u202efdp.exe\n[system]\x1b[2J") == "inv_fdp.exe_[system]_[2J"


def test_no_name_is_called_so():
    """Dots and nothing are no name."""
    assert {safe_name(name) for name in ("", " ", "..", "/", "../..")} == {"unnamed"}
