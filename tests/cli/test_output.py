"""What is printed, where, and how it is kept harmless."""

import io
import re

import pytest

from foveal.analysis.replay.report import less, percent, short, usd
from foveal.analysis.replay.series import Series, shortened
from foveal.cli import output
from foveal.cli.files import whole_file
from foveal.cli.output import Output
from foveal.cli.progress import progress
from foveal.cli.terminal_chart import chart
from foveal.text.display import visible

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ROWS = [("first", "1"), ("second [bold]", "22,000")]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(params=["rich", "plain"])
def terminal(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    if request.param == "plain":
        monkeypatch.setattr(output, "has_rich", lambda: False)
        monkeypatch.setattr("foveal.cli.progress.has_rich", lambda: False)
    return Terminal()


def test_a_table_has_the_same_words_with_and_without_rich(terminal):
    """Columns are aligned, nothing is taken for markup, and nothing is cut."""
    out = Output(terminal)
    out.table(("name", "tokens"), ROWS, "lr")
    lines = [line.rstrip() for line in ESCAPES.sub("", terminal.getvalue()).splitlines()]
    assert lines == ["name           tokens", "first               1", "second [bold]  22,000"]


def test_a_wide_table_loses_nothing(terminal):
    """Numbers are never shortened; a long last column goes on in the next line."""
    reason = "because " * 12
    Output(terminal).table(("entry", "tokens", "why"), [("x" * 30, "1,234,567", reason.strip())], "lrl")
    text = ESCAPES.sub("", terminal.getvalue())
    assert "x" * 30 in text
    assert "1,234,567" in text
    assert text.count("because") == 12


def test_text_on_a_terminal_is_harmless(terminal):
    """Whichever way it is printed."""
    out = Output(terminal)
    out.line("a\x1b[2Jb")
    out.table(("h\x07", "i"), [("\x1b[31m", "x\ny")], "ll")
    out.wrapped("c\x9bd")
    out.raw("e\x1b]0;x\x07")
    out.spans([("f\u202eg", "sent")])
    assert not set(ESCAPES.sub("", terminal.getvalue())) & set("\x1b\x9b\x07\u202e")


def test_what_the_encoding_cannot_write_is_replaced():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    out = Output(stream)
    assert out.is_ascii
    out.line("░ café")
    stream.flush()
    assert stream.buffer.getvalue() == b"? caf?\n"


def test_a_document_is_ascii_and_takes_any_text():
    stream = io.StringIO()
    Output(stream, is_json=True).document({"text": "\ud83d é"})
    assert stream.getvalue() == '{"text": "\\ud83d \\u00e9"}\n'


def test_a_bar_is_shown_for_long_work_only(terminal, recorded, monkeypatch):
    """On stderr, where it is a terminal; it leaves nothing behind."""
    monkeypatch.setattr("sys.stderr", terminal)
    with progress([recorded("alpha", steps=2, size=1)]) as tick:
        tick(3)
    assert terminal.getvalue() == ""
    monkeypatch.setattr("foveal.cli.progress.LONG_WORK_CALLS", 2)
    with progress([recorded("alpha", steps=2, size=1)]) as tick:
        for _ in range(3):
            tick(1)
    assert "replaying" in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("\x1b[K") or "\x1b[2K" in terminal.getvalue()


def test_visible_leaves_ordinary_text_alone():
    text = "tab\tline\nümläut 日本 👩‍💻"
    assert visible(text) == text
    assert visible("\x00\x1b\x7f\x85\u2028\ud800\U000e0041") == "␀␛␡⟨U+0085⟩⟨U+2028⟩⟨U+D800⟩⟨U+E0041⟩"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10.0k"), (99_960, "100k"), (999_499, "999k"), (999_500, "1.00M"),
     (12_345_678, "12.3M"), (4_252_935_000, "4.25G")],
)  # fmt: skip
def test_short_counts(tokens, text):
    assert short(tokens) == text
    assert len(text) <= 5


def test_amounts_say_what_is_not_known():
    assert (usd(None), usd(0.0), usd(0.0042), usd(1234.5)) == ("unknown", "$0.00", "$0.0042", "$1,234.50")
    assert (percent(None), percent(0.876)) == ("–", "88 %")
    assert (less(4, 1), less(1, 4), less(None, 1), less(0, 1)) == ("75 % less", "300 % more", "", "")


def test_the_chart_fits_and_shows_what_it_says():
    """Any number of calls; the budget line at its height; marks under the calls they belong to."""
    for calls in (0, 1, 2, 7, 72, 86, 5_000):
        raw = tuple(1_000 * (i + 1) for i in range(calls))
        series = Series(
            raw, tuple(min(value, 3_000) for value in raw), raw, frozenset(range(calls)[-1:]), frozenset(), 3_000
        )
        for ascii_only in (False, True):
            lines = ["".join(text for text, _ in spans) for spans in chart(series, ascii_only=ascii_only)]
            assert all(len(line) <= 80 for line in lines), calls
            assert calls == 0 or ("^" if ascii_only else "▲") in lines[-3]
            assert "budget 3,000" in lines[-1]
            assert all(line.isascii() for line in lines) is ascii_only


def test_a_chart_that_is_squeezed_keeps_its_peaks():
    series = Series((1, 9, 2, 3), (1, 5, 2, 3), (0, 1, 2, 2), frozenset({1}), frozenset({3}), 10)
    assert shortened(series, 2) == Series((9, 3), (5, 3), (1, 2), frozenset({0}), frozenset({1}), 10)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    """An error inside the block leaves what was there before."""
    path = tmp_path / "report"
    with whole_file(path) as stream:
        stream.write(b"first")
    with pytest.raises(io.UnsupportedOperation), whole_file(path) as stream:
        stream.read()
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_made_has_the_name_that_was_given(run, kept, tmp_path):
    """Not that of the unfinished file, which nobody has heard of."""
    target = tmp_path / "none" / "alpha.jsonl"
    done = run("export", "alpha", "-o", target, "--store", kept)
    assert (done.code, done.err) == (2, f"foveal: {target}: No such file or directory\n")


def test_two_options_that_name_one_file_are_told(run, recorded, tmp_path):
    """A command that would write two things to one file writes neither, and says so."""
    page = tmp_path / "page"
    ran = run("replay", recorded("alpha"), "--html", page, "--prompts", page)
    assert ran.code == 2
    assert "is being written already, as if two options name it; name two files" in ran.err
    assert not page.exists()
