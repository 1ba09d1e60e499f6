"""The model of a run and its address: a conversation goes on where it was, and to no other host."""

import asyncio
import json
import shlex
import sys
from argparse import Namespace
from pathlib import Path

import pytest

import foveal
from foveal.agent import ModelChoice
from foveal.agent.driver import RunOutcome
from foveal.agent.model_errors import fault_class
from foveal.agent.providers import open_model
from foveal.agent.run_marks import RunBegan, StatusSet, to_note
from foveal.agent.runs import RunCost
from foveal.cli import main
from foveal.cli.output import Output
from foveal.cli.run_screen import tell_end
from foveal.testing.provider import Call, Refusal, ScriptedProvider, Turn

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("FOVEAL_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def provider():
    with ScriptedProvider() as server:
        yield server


REFUSED = Refusal(401, "no such key")


def hint_in(err: str) -> list[str]:
    """The words of the command behind "Go on with:", without the program."""
    line = next(line for line in err.splitlines() if "Go on with: " in line)
    return shlex.split(line.partition("Go on with: ")[2])[1:]


def test_the_hint_names_every_option_of_the_run(provider, folder, capsys):
    """Agent, model, folder and store: pasted, it goes on with the same model at the same address."""
    (folder / "a.toml").write_text('model = "claude-sonnet-5"\n')
    model = f"openai:llama@{provider.url}/v1"
    provider.script(REFUSED)
    words = ("--agent", "a.toml", "--model", model, "--store", "q 1.db")
    assert main(["run", "--session", "loc", *words, "private text"]) == 1
    hint = hint_in(capsys.readouterr().err)
    assert hint == ["resume", "loc#1", *words]
    provider.script(Turn("Done."))
    assert main(hint) == 0
    assert [request.body["model"] for request in provider.requests] == ["llama", "llama"]


def test_a_run_goes_on_with_the_model_that_it_had(provider, monkeypatch):
    """`resume` without a model asks the address of the run, though the key of another provider is set."""
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    provider.script(REFUSED, Turn("Done."))
    assert main(["run", "--session", "loc", "--model", f"openai:llama@{provider.url}/v1", "private text"]) == 1
    assert main(["resume", "loc"]) == 0
    assert [request.body["model"] for request in provider.requests] == ["llama", "llama"]


def test_the_next_message_goes_to_the_model_of_the_conversation(provider, monkeypatch):
    """`run --session` without a model asks the address that the session has had."""
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    provider.script(Turn("Done."), Turn("Again."))
    assert main(["run", "--session", "loc", "--model", f"openai:llama@{provider.url}/v1", "private text"]) == 0
    assert main(["run", "--session", "loc", "more"]) == 0
    assert len(provider.requests) == 2


def test_a_scripted_run_is_never_sent_to_a_provider(folder, monkeypatch, capsys):
    """What began with `--provider scripted` goes on with it."""
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    (folder / "a.toml").write_text('model = "gpt-5"\ntools = ["list_files"]\n[[approvals]]\ntool = "list_files"\n')
    main(["run", "--provider", "scripted", "--agent", "a.toml", "--session", "s", "Look."])
    assert main(["resume", "s", "--agent", "a.toml", "--decision", "allow"]) == 0
    assert "This is the scripted provider" in capsys.readouterr().out


def test_a_file_that_names_another_model_is_told(provider, folder, capsys):
    """The run does not go on until somebody says with which one."""
    (folder / "a.toml").write_text('model = "claude-sonnet-5"\n')
    model = f"openai:llama@{provider.url}/v1"
    provider.script(REFUSED)
    main(["run", "--agent", "a.toml", "--session", "loc", "--model", model, "private text"])
    assert main(["resume", "loc", "--agent", "a.toml"]) == 2
    said = capsys.readouterr().err
    assert f"began with {model}, and a.toml names claude-sonnet-5" in said
    assert f"--model {model}" in said


def test_an_older_run_needs_the_name_of_its_model(monkeypatch, capsys):
    """Its log does not have it, and no other host is guessed."""
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    with foveal.open_store("foveal.db") as store, foveal.Session(store, "s", model="gpt-5") as session:
        marks = (RunBegan(1, "default"), StatusSet("paused", 1, "default"))
        session.extend([*map(to_note, marks), foveal.user("private text")])
    assert main(["resume", "s"]) == 2
    assert "--model openai:MODEL@URL" in capsys.readouterr().err


def test_the_log_has_no_password_of_an_address():
    """The mark of a run has the model and the host, and nothing that lets others in."""
    choice = ModelChoice.of("openai:llama@https://me:secret@models.example/v1")
    assert choice.spelled == "openai:llama@https://models.example/v1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "claud-sonnet-5"), "there is no model claud-sonnet-5. Did you mean claude-sonnet-5?"),
        (("--model", "claud-sonnet-5"), "For one that Foveal does not know: openai:NAME"),
        (("--model", "opnai:gpt-5"), "there is no provider 'opnai'. Did you mean openai"),
        (("--model", "openai:llama@localhost:11434/v1"), "is no address; one begins with http://"),
        (("--model", "openai:gpt-5", "--provider", "google"), "name two providers; leave out one"),
    ],
)
def test_a_model_that_does_not_exist_is_told(capsys, words, said):
    """With the nearest name, before anything is kept or sent."""
    assert main(["run", *words, "Look."]) == 2
    assert said in capsys.readouterr().err


def test_an_sdk_that_is_missing_is_told_before_the_run(monkeypatch, capsys):
    """Nothing is stored, and the words say what to install."""
    monkeypatch.setattr("foveal.agent.providers.find_spec", lambda name: None)
    assert main(["run", "--provider", "scripted", "Look."]) == 2
    said = capsys.readouterr().err
    assert said.endswith("Install it in the checkout of Foveal: pip install '.[openai]'\n")
    assert not Path("foveal.db").exists()


def test_a_queue_without_workers_is_told(capsys):
    """`--dbos` is for runs that are left to the workers."""
    assert main(["run", "--provider", "scripted", "--dbos", "sqlite:///q.db", "Look."]) == 2
    assert "--dbos needs --detach" in capsys.readouterr().err


def asked(spelled: str) -> BaseException:
    """Return the error of one call of this model."""

    async def ask() -> None:
        port = open_model(ModelChoice.of(spelled))
        request = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
        try:
            async for _ in port.complete(request):
                pass
        finally:
            await port.close()

    with pytest.raises(Exception) as told:  # noqa: PT011 - of any class, its words are looked at
        asyncio.run(ask())
    return told.value


def test_a_server_that_is_down_is_told_with_its_address():
    """And asked for: the SDK says no more than that a connection failed."""
    error = asked("openai:llama@http://127.0.0.1:1/v1")
    assert str(error) == "the server at http://127.0.0.1:1/v1 cannot be reached. Is it running?"
    assert fault_class(error) == "transient"


def test_a_key_that_is_refused_is_told_by_its_variable(provider, monkeypatch):
    """With the provider that refused it, and a full stop between its words and ours."""
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    provider.script(REFUSED)
    said = str(asked("openai:gpt-5"))
    assert "OpenAI refused the key in OPENAI_API_KEY (401). Set another key." in said
    assert "no such key" in said.partition("It says: ")[2]


def test_a_server_of_ones_own_that_wants_a_key_is_told_that_none_was_sent(provider, monkeypatch):
    """Although the usual one is set, which goes to its provider alone; with the words of the server."""
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    provider.script(REFUSED)
    said = str(asked(f"openai:llama@{provider.url}/v1"))
    assert "wants a key (401), and none was sent: the one in OPENAI_API_KEY is sent to OpenAI alone." in said
    assert "no such key" in said.partition("It says: ")[2]


def test_a_paused_run_is_told_in_a_sentence(capsys):
    """Without a reason that nobody gave, and with a code that says that it waits."""
    out = Output(sys.stdout)
    args = Namespace(agent=None, provider=None, model=None, workspace=".", store=None)
    outcome = RunOutcome(run="cc#1", session="cc", status="paused", text="", reason="", steps=1, usage={})
    assert tell_end(outcome, RunCost("cc#1", {}, 0.0), args, out) == 3
    assert capsys.readouterr().err.startswith("foveal: cc#1 is paused. Go on with: foveal resume 'cc#1'\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("store", "stats"), "name one as in `foveal store stats FILE`"),
        (("runs", "--store", "a folder"), "a folder is a folder; a store is a file"),
        (("runs", "--status", "bogus", "--store", "real.db"), "there are pending, running, awaiting_user"),
        (("runs", "bogus", "--store", "real.db"), "show, wait, cancel, pause, tree, cost, audit, resume, work"),
        (("replay", "--recent", "3"), "/.codex"),
    ],
)
def test_an_error_names_the_choices(folder, monkeypatch, capsys, words, said):
    """The file to name, the statuses, the verbs, the folders that were looked into."""
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (folder / "a folder").mkdir()
    foveal.open_store("real.db").close()
    assert main([*words]) == 2
    assert said in capsys.readouterr().err


def test_exit_codes_are_listed(capsys):
    """In the help of the command."""
    assert main(["--help"]) == 0
    assert "3 a run waits for you" in " ".join(capsys.readouterr().out.split())


def test_a_policy_without_room_is_refused_when_it_is_made():
    """And not with the first prompt."""
    with pytest.raises(foveal.errors.BadPolicy, match="max_context_tokens is -1"):
        foveal.Policy(max_context_tokens=-1)


def test_the_models_of_a_provider_whose_key_is_set_are_listed(monkeypatch, capsys):
    """Without any key a few are; `--all` lists everything that is known."""
    main(["models"])
    assert 3 <= len(capsys.readouterr().out.splitlines()) < 20
    monkeypatch.setenv("ANTHROPIC_API_KEY", "mine")
    main(["models", "--json"])
    assert {one["provider"] for one in json.loads(capsys.readouterr().out)["models"]} == {"anthropic"}
    main(["models", "--all", "--json"])
    assert len(json.loads(capsys.readouterr().out)["models"]) > 500


@pytest.mark.parametrize(("named", "model"), [("", "two"), ("three", "three")])
def test_a_run_goes_on_after_a_handoff_with_the_file_that_it_began_with(provider, folder, capsys, named, model):
    """The file names the agent that has taken over; the command that is printed goes on as that one, with its model."""
    address = f"@{provider.url}/v1"
    (folder / "a.toml").write_text(f'name = "a"\nmodel = "openai:one{address}"\nhandoffs = ["b.toml"]\n')
    (folder / "b.toml").write_text(f'name = "b"\nmodel = "openai:two{address}"\n')
    provider.script(Turn("", (Call("c1", "handoff", {"agent": "b", "reason": "It knows."}),)), REFUSED)
    assert main(["run", "--session", "h", "--agent", "a.toml", "Go."]) == 1
    hint = hint_in(capsys.readouterr().err)
    assert hint == ["resume", "h#1", "--agent", "a.toml"]
    provider.script(Turn("Done."))
    assert main([*hint, *(("--model", f"openai:{named}{address}") if named else ())]) == 0
    assert [request.body["model"] for request in provider.requests] == ["one", "two", model]
