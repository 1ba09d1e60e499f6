"""Secrets that are taken out on the way in."""

from pathlib import Path

import pytest

import foveal
from foveal.recall.search import search
from foveal.session.client_session import ClientSession
from foveal.text.redaction import redact_secrets
from foveal.values.entry import Message, Thinking
from foveal.values.own_tools import REMEMBER_TOOL

TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use {TOKEN} now", "use [redacted: GitHub token] now"),
        (f"a {KEY} b", "a [redacted: private key] b"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted: AWS key]"),
        ("sk-proj-" + "x9" * 20, "[redacted: API key]"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "Authorization: Bearer [redacted: token]"),
        ("postgresql://me:hunter22@db/x", "postgresql://me:[redacted: password]@db/x"),
        ('{"password": "correct-horse"}', '{"password": "[redacted: secret]"}'),
        ("API_KEY=abcdefgh12345678\nnext", "API_KEY=[redacted: secret]\nnext"),
        ("The password is long. https://a.example/b?c=d sk-learn, key: value", None),
        ("def secret(x): return password", None),
    ],
)
def test_secrets_are_known_by_their_shape(text: str, shown: str | None) -> None:
    """A secret is replaced by its kind, ordinary text is not touched, and doing it twice changes nothing."""
    assert redact_secrets(text) == (text if shown is None else shown)
    assert redact_secrets(redact_secrets(text)) == redact_secrets(text)


def test_a_redacted_secret_is_nowhere(tmp_path: Path) -> None:
    """Messages, results small and large, their summaries, thinking that nobody signed, arguments of calls, a provider's replies:
    the token is in no file, prompt, trace or index, and what stands in its place is found."""
    host = foveal.Host(redact=redact_secrets)
    with foveal.open_store(tmp_path / "a.db") as store:
        with foveal.Session(store, "s", model="gpt-5", host=host) as session:
            session.append(foveal.user(f"the token is {TOKEN}"))
            session.append(foveal.assistant("", foveal.ToolCall("c1", "run", f'{{"token": "{TOKEN}"}}')))
            session.append(foveal.result("c1", f"echo {TOKEN}"))
            session.append({"role": "user", "content": f"again {TOKEN}"})
            session.append(foveal.assistant("", foveal.ToolCall("c2", "run", "{}")))
            session.append(foveal.result("c2", f"line {TOKEN}\n" * 9_000, summary=f"found {TOKEN}"))
            session.append(Message("assistant", (Thinking(f"so it is {TOKEN}"), foveal.Text("Well."))))
            reply = {"role": "assistant", "content": f"I read {TOKEN}"}
            session.append({"choices": [{"message": reply, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}})
            session.append(foveal.user("and now?"))
            shown = f"{session.prompt().request} {session.why()}"
            assert "[redacted: GitHub token]" in shown
            assert TOKEN not in shown
        assert search(store, "s", "redacted GitHub token")
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]


def test_a_host_may_redact_in_its_own_way() -> None:
    """Any function of a text will do; what was built anew from the log shows the same."""
    store = foveal.open_store()
    host = foveal.Host(redact=lambda text: redact_secrets(text).replace("Jane Roe", "[a person]"))
    with foveal.Session(store, "s", model="gpt-5", host=host) as session:
        session.append(foveal.user(f"Jane Roe has {TOKEN}"))
        first = session.prompt().request
    with foveal.Session(store, "s", model="gpt-5") as session:
        assert session.prompt().request == first
    assert "[a person] has [redacted: GitHub token]" in str(first)


def test_a_session_that_redacts_follows_no_list() -> None:
    """A client sends its secret again with each list, which would never be the one in the log."""
    session = foveal.Session(foveal.open_store(), "s", model="gpt-5", host=foveal.Host(redact=redact_secrets))
    with pytest.raises(foveal.errors.BadInput, match="redact the list before"):
        session.follow([{"role": "user", "content": TOKEN}])


def test_a_child_that_redacts_is_given_no_secret_of_its_parent(tmp_path: Path) -> None:
    """The parent keeps it. Of its turns, its references and the task, the child has none; and its task is not repeated when it
    goes on."""
    with (
        foveal.open_store(tmp_path / "a.db") as store,
        foveal.Session(store, "s", model="gpt-5") as parent,
    ):
        parent.append(foveal.user(f"the token is {TOKEN}"))
        parent.append(foveal.assistant("", foveal.ToolCall("c1", "run", "{}")))
        read = parent.append(foveal.result("c1", f"echo {TOKEN}"))
        for _ in range(2):
            with parent.children.open(
                "low", f"use {TOKEN}", inherit_turns=1, refs=[read.id], host=foveal.Host(redact=redact_secrets)
            ) as child:
                shown = f"{child.prompt().request} {child.recall(read.id)}"
                assert TOKEN not in shown
                assert shown.count("use [redacted: GitHub token]") == 1
                assert shown.count("[redacted: GitHub token]") == 4


def test_content_beside_the_conversation_is_redacted(tmp_path: Path) -> None:
    """Notes of the host, notes of a model whose call a provider signed, fences, reminders, and the texts of files."""
    policy = foveal.Policy(remind=True, memory="ann")
    host = foveal.Host(redact=redact_secrets)
    with (
        foveal.open_store(tmp_path / "a.db") as store,
        ClientSession(store, "s", model="gpt-5", policy=policy, host=host) as session,
    ):
        session.context.remember(f"the token is {TOKEN}")
        session.context.inject("instructions", f"mind {TOKEN}")
        session.context.remind(f"not {TOKEN}")
        session.attach_bytes(f"key {TOKEN}".encode(), f"{TOKEN}.txt")
        session.append(foveal.user("Go."))
        shown = str(session.prompt().request)
        assert TOKEN not in shown
        assert shown.count("[redacted: GitHub token]") >= 4
        signed = foveal.ToolCall("c1", REMEMBER_TOOL, f'{{"text": "it is {TOKEN}", "key": "k"}}', signature="sig")
        session.append(Message("assistant", (signed,)))
        assert session.serve() == []
        kept = [note.text for note in store.scope("ann").notes()]
        assert kept == ["it is [redacted: GitHub token]", "the token is [redacted: GitHub token]"]
