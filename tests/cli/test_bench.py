"""`foveal bench`."""

import json

import pytest

WORK = ("--budgets", "8000", "--policies", "full history; window, batched to 0.5; oracle")


def test_without_a_file_it_measures_the_bundled_session(run):
    """A table in Markdown with a line for each policy."""
    ran = run("bench", *WORK)
    assert ran.code == 0
    assert "## 8,000 tokens a call" in ran.out
    assert "| full history | 1.000 | 1.000 | 1.000 | 1.000 |" in ran.out
    assert "| oracle |" in ran.out


def test_figures_and_picture_go_to_files(run, tmp_path):
    """Every session is in the document; the picture is an SVG."""
    ran = run("bench", *WORK, "--json", tmp_path / "out.json", "--svg", tmp_path / "out.svg")
    assert ran.code == 0
    assert len(json.loads((tmp_path / "out.json").read_text())["sessions"]) == 3
    assert (tmp_path / "out.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policies", "windows"), "there is no policy 'windows'"),
        (("--budgets", "many"), "--budgets 'many'"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_work(run, words, said):
    """A wrong policy or budget is named, and nothing is measured."""
    ran = run("bench", *words)
    assert ran.code == 2
    assert said in ran.err


def test_sets_without_long_sessions_are_refused_with_numbers(run, tmp_path):
    """Nothing to measure is an error, not an empty table."""
    file = tmp_path / "short.jsonl"
    file.write_text(
        json.dumps({"id": "s", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]})
    )
    ran = run("bench", file, "--least", "5000")
    assert ran.code == 2
    assert "no session of 5,000 tokens or more" in ran.err
