"""Help, completion and mistyped commands: what somebody sees who does not know the command yet."""

import io
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from keyword import iskeyword

import pytest

from foveal.cli.arguments import command_line
from foveal.cli.commands import COMMANDS
from foveal.cli.parser import make_parser, parse
from foveal.values.errors import BadInput


def test_help_on_all_commands_loads_none_of_them():
    """The overview needs neither the engine nor a module of a command, nor a terminal library."""
    code = (
        "import sys\nfrom foveal.cli import main\nmain(['--help'])\n"
        "heavy = ('foveal.session', 'foveal.fit', 'foveal.cli.replay', 'apsw', 'rich', 'importlib.metadata')\n"
        "sys.stderr.write(str([name for name in heavy if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]"
    assert all(f"\n    {name}" in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_help_with_examples_that_parse(run, name):
    """Each `--help` ends with lines to type; each of them is a line that the parser takes."""
    done = run(name, "--help")
    assert (done.code, done.err) == (0, "")
    module = import_module(f"foveal.cli.{name}{'_' if iskeyword(name) else ''}")
    assert (module.__doc__ or "").partition("\n")[0] == COMMANDS[name].summary
    for line in COMMANDS[name].examples:
        assert f"  {line}\n" in done.out
        for command in line.split(" | "):
            words = shlex.split(command.partition(" > ")[0])
            assert words[0] != "foveal" or parse(words[1:]).run
    assert any(line.startswith(f"foveal {name}") for line in COMMANDS[name].examples)


@pytest.mark.parametrize(("typed", "meant"), [("repaly", "replay"), ("session", "sessions"), ("shwo", "show")])
def test_a_mistyped_command_is_answered_with_the_nearest(run, typed, meant):
    """One line, and the exit code of a line that could not be understood."""
    done = run(typed)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"foveal: there is no command '{typed}'. Did you mean `foveal {meant}`? See `foveal --help`\n"


def test_an_unknown_command_without_a_near_one_names_the_help(run):
    """No guess where there is none to make."""
    assert run("xyzzy").err == "foveal: there is no command 'xyzzy'. See `foveal --help`\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_understood_by_it(run, shell, tmp_path):
    """Every command and its options are in it, and the shell, where it is installed, takes the script."""
    done = run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in COMMANDS)
    assert ("-l salvage" if shell == "fish" else "--salvage") in done.out
    if found := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.out)
        assert subprocess.run([found, "-n", script], capture_output=True, check=False).returncode == 0


def test_bash_completes_commands_and_options(run, tmp_path):
    """`foveal rep<Tab>` is `replay`, and its options follow; options of nested commands too."""
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("bash is not installed")
    script = tmp_path / "script"
    script.write_text(run("completion", "bash").out)

    def complete(*words: str) -> list[str]:
        line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _foveal; echo ${{COMPREPLY[@]}}"
        return subprocess.run([bash, "-c", line], capture_output=True, text=True, check=True).stdout.split()

    assert complete("foveal", "rep") == ["replay"]
    assert complete("foveal", "replay", "--ht") == ["--html"]
    assert complete("foveal", "workspace", "cl") == ["clean"]
    assert complete("foveal", "workspace", "clean", "--older") == ["--older-than"]


def test_a_recording_is_read_from_standard_input(run, recorded, monkeypatch):
    """`-` stands for standard input, beside files, and the session of a line keeps its name."""
    piped = io.TextIOWrapper(io.BytesIO(recorded("alpha").read_bytes()))
    monkeypatch.setattr("sys.stdin", piped)
    done = run("replay", "-", recorded("beta", file="beta.jsonl"), "--budget", 8000, "--json")
    assert (done.code, done.err) == (0, "")
    assert [session["session"] for session in done.json["sessions"]] == ["alpha", "beta"]


def test_the_command_names_itself_by_a_word_that_works(monkeypatch, tmp_path):
    """`foveal` if the shell finds this very program, else the path to it or the module."""
    script = tmp_path / "bin" / "foveal"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command_line() == "bin/foveal"
    monkeypatch.chdir(script.parent.parent / "bin")
    monkeypatch.setenv("PATH", str(script.parent))
    assert command_line() == "foveal"
    monkeypatch.setattr("sys.argv", ["/somewhere/foveal/__main__.py"])
    assert command_line() == f"{shlex.quote(sys.executable)} -m foveal"


def test_all_commands_have_a_parser():
    """The table names every command that there is."""
    assert make_parser(()).format_help()


@pytest.mark.parametrize(
    "line",
    [
        "pin S --remove E",
        "pin S E --remove",
        "pin --remove S E",
        "pin S --reason R E",
        "label S --title T --store a.db",
        "store migrate a.db --json b.db",
        "delete s --yes t",
    ],
)
def test_options_may_stand_between_the_words_of_a_command(line):
    """A word that may be left out is not taken for missing because an option comes before it."""
    args = vars(parse(line.split()))
    words = [args.get(name) for name in ("session", "entry", "place", "target")]
    assert [word for word in words if word] + (args.get("sessions") or []) in (
        ["S", "E"],
        ["S"],
        ["a.db", "b.db"],
        ["s", "t"],
    )


def test_a_word_too_many_is_refused_wherever_it_stands():
    """The options between the words do not hide it."""
    for line in ("pin S --remove E X", "pin S E X --remove", "pin S --remove -x"):
        with pytest.raises(BadInput, match=r"unrecognized arguments: -?[xX]"):
            parse(line.split())
