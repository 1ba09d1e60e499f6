"""Whatever goes wrong is one line on stderr and an exit code; nothing is half-written, and no traceback is ever shown."""

import os
import subprocess
import sys

import pytest

from foveal.cli import main

FOVEAL = [sys.executable, "-m", "foveal"]


def refused(done):
    """The one line that says why."""
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("foveal: ")
    return line


@pytest.mark.parametrize("budget", ["0", "-5", "many", "1.5", ""])
def test_a_budget_is_a_number_above_zero(run, recorded, budget):
    assert "is not a number above zero" in refused(run("replay", recorded("alpha"), f"--budget={budget}"))


def test_an_unknown_dialect_is_named_with_the_nearest(run, recorded):
    assert "Did you mean 'openai_chat'?" in refused(run("replay", recorded("alpha"), "--dialect", "openai_chap"))


def test_an_unknown_policy_key_is_named_with_the_nearest(run, recorded, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("max_context_token = 5\n")
    assert "Did you mean `max_context_tokens`?" in refused(run("replay", recorded("alpha"), "--policy", policy))


def test_a_policy_that_cannot_be_is_said_once(run, recorded, tmp_path):
    """With one process and with two, and not once for each recording."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[budget]\nlimit = 100\nreserve = 200\n")
    for jobs in (1, 2):
        said = refused(run("replay", recorded("alpha", "beta"), "--policy", policy, "--jobs", jobs))
        assert "100" in said


def test_a_wrong_fact_about_a_model_names_the_policy(run, recorded, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("[models.gpt-5]\nwindows = 5\n")
    assert f"{policy}: 'windows' is not a field" in refused(run("replay", recorded("alpha"), "--policy", policy))


def test_a_missing_policy_is_named(run, recorded, tmp_path):
    assert "absent.toml" in refused(run("replay", recorded("alpha"), "--policy", tmp_path / "absent.toml"))


def test_bad_files_are_named_with_their_line_and_the_others_are_replayed(run, recorded, tmp_path):
    """The sessions that are whole are in the table and in the prompts; the exit code says that it is not all."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text(recorded("beta").read_text() + '{"messages": 5}\n')
    out = tmp_path / "prompts.jsonl"
    done = run("replay", tmp_path / "absent.jsonl", bad, recorded("alpha"), "--prompts", out, "--json")
    assert done.code == 2
    absent, damaged = done.err.splitlines()
    assert absent == f"foveal: {tmp_path}/absent.jsonl: there is no such file"
    assert damaged.startswith(f"foveal: {bad}:2: ")
    assert [session["session"] for session in done.json["sessions"]] == ["beta", "alpha"]
    assert len(done.json["errors"]) == 2
    assert len(out.read_text().splitlines()) == 14


def test_nothing_is_written_if_nothing_was_replayed(run, tmp_path):
    """A report of an earlier run stays as it is."""
    page, prompts = tmp_path / "page.html", tmp_path / "prompts.jsonl"
    page.write_text("an earlier one")
    assert run("replay", tmp_path / "absent.jsonl", "--html", page, "--prompts", prompts).code == 2
    assert page.read_text() == "an earlier one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]


def test_an_interrupted_replay_leaves_nothing(run, recorded, tmp_path, monkeypatch):
    """Ctrl-C is exit code 130, and the unfinished output is gone."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("foveal.cli.batch.replay", interrupt)
    out = tmp_path / "prompts.jsonl"
    done = run("replay", recorded("alpha"), "--prompts", out)
    assert (done.code, done.out, done.err) == (130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["recorded.jsonl"]


def test_a_replay_that_fails_leaves_none_of_its_prompts(run, recorded, tmp_path):
    """A session whose name no store takes is an error of its own; the others are whole."""
    path = recorded("alpha", "be\u0007ta", "gamma")
    for jobs in (1, 2):
        out = tmp_path / f"prompts{jobs}.jsonl"
        done = run("replay", path, "--prompts", out, "--jobs", jobs)
        assert done.code == 2
        assert f"foveal: {path}:2: " in done.err
        assert len(out.read_text().splitlines()) == 14


def test_an_output_that_cannot_be_written_is_said_first(run, recorded, tmp_path):
    assert str(tmp_path) in refused(run("replay", recorded("alpha"), "--html", tmp_path))
    assert "No such file" in refused(run("replay", recorded("alpha"), "--prompts", tmp_path / "absent" / "p.jsonl"))


def test_a_recording_is_not_written_over(run, recorded):
    path = recorded("alpha")
    before = path.read_bytes()
    assert "is one of the recordings" in refused(run("replay", path, "--prompts", path))
    assert path.read_bytes() == before


def test_a_store_that_is_none_is_said_first(run, recorded, tmp_path):
    """And no store is made for recordings that cannot be read."""
    refused(run("replay", recorded("alpha"), "--store", recorded("alpha")))
    assert run("replay", tmp_path / "absent.jsonl", "--store", tmp_path / "new.db").code == 2
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "words", [("sessions",), ("why", "alpha"), ("show", "alpha"), ("recall", "alpha", "x"), ("pin", "alpha", "x")]
)
def test_reading_does_not_make_a_store(run, tmp_path, monkeypatch, words):
    """A store that is not there is said to be not there, and is not there afterwards either."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOVEAL_STORE", raising=False)
    assert "there is no store at foveal.db" in refused(run(*words))
    (tmp_path / "empty.db").touch()
    assert "is not a store" in refused(run(*words, "--store", "empty.db"))
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]


def test_another_file_is_not_a_store(run, recorded):
    refused(run("sessions", "--store", recorded("alpha")))


def test_what_is_not_in_the_store_is_named(run, kept):
    """Session, call, entry and reference each have their own words."""
    assert "it has alpha" in refused(run("why", "nobody", "--store", kept))
    assert "there is no call 99" in refused(run("why", "alpha", "--call", 99, "--store", kept))
    assert "no entry begins with 'zzz'" in refused(run("why", "alpha", "--entry", "zzz", "--store", kept))
    assert "nothing under the reference" in refused(run("recall", "alpha", "zzz", "--store", kept))
    assert "not a number above zero" in refused(run("show", "alpha", "--call", 0, "--store", kept))


@pytest.mark.parametrize("words", [(), ("nosuch",), ("replay",), ("why",), ("doctor",), ("sessions", "--nosuch")])
def test_usage_errors_are_one_line(run, words):
    assert "--help" in refused(run(*words))


ADDRESS = "postgresql://me:s3cret@h/d"


@pytest.mark.parametrize(
    "words",
    [
        ("backup", ADDRESS, "--store", "{store}"),
        ("store", "backup", "{store}", ADDRESS),
        ("doctor", "{store}", "--salvage", ADDRESS),
        ("export", "alpha", "-o", ADDRESS, "--store", "{store}"),
        ("import", ADDRESS, "--store", "{store}"),
    ],
)
def test_a_database_is_no_file_to_write_to_or_read(run, kept, words):
    """The command that copies a store into a database is named, and the password is not."""
    said = refused(run(*(word.format(store=kept) for word in words)))
    assert "postgresql://me@h/d is a database; name a file" in said
    assert "store migrate" in said


@pytest.mark.parametrize(
    "words",
    [
        ("label", "alpha", ADDRESS),
        ("sessions", ADDRESS),
        ("store", "stats", "a.db", "b.db", ADDRESS),
        ("store", "stats", ADDRESS.replace(":/", "/")),
        ("view", "alpha", "--html", ADDRESS, "--store", "{store}"),
        ("why", ADDRESS, "--store", "{store}"),
    ],
)
def test_no_error_repeats_the_password_of_an_address(run, kept, words):
    """Whatever the address was taken for: a word too many, a file, a session."""
    said = refused(run(*(word.format(store=kept) for word in words)))
    assert "me:…@h" in said
    assert "s3cret" not in said


def test_a_backup_may_be_named_as_an_address_of_sqlite(run, kept, tmp_path):
    """As everywhere else, it is a file."""
    assert run("backup", f"sqlite:///{tmp_path}/copy.db", "--store", kept).code == 0
    assert (tmp_path / "copy.db").is_file()


def test_the_script_never_shows_a_traceback(tmp_path):
    """Through a process of its own, with stderr as a user sees it."""
    done = subprocess.run(
        [*FOVEAL, "replay", "absent.jsonl"], capture_output=True, cwd=tmp_path, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "foveal: absent.jsonl: there is no such file\n"


def test_a_reader_that_leaves_is_no_error(tmp_path):
    """`foveal models | head` ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run([*FOVEAL, "models"], stdout=gone, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    assert done.stderr == b""
    assert done.returncode == 1


def test_help_and_version(capsys):
    """Both are answers, not errors."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("foveal ")
    assert main(["--help"]) == 0
    assert "Replay recorded sessions" in capsys.readouterr().out.replace("\n", " ")
    assert main(["replay", "--help"]) == 0
    assert "--prompts" in capsys.readouterr().out
