"""Following a client's list: what is new is found, and nothing else is written."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.record.client_list import ClientList
from foveal.session.follow import ClientFollower
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing.builders import MODELS, counted_ids, open_session
from foveal.testing.commit_faults import CommitFaults
from foveal.testing.list_clients import follow_client
from foveal.values.entry import Message, Note, Text, Thinking, ToolCall, assistant, result, system, user
from foveal.values.errors import BadInput, StoreUnavailable

READS = ToolCall("c1", "read", '{"path": "a.py", "limit": 3}')


def steps(number: int, words: int = 20) -> list[Message]:
    """A request, and calls with their results."""
    found = [user("Read the modules, and keep the table.")]
    for i in range(number):
        found += [assistant("", ToolCall(f"c{i}", "read", json.dumps({"path": f"m{i}.py"})))]
        found += [result(f"c{i}", f"module {i}\n" + "line of code\n" * words)]
    return found


def entries(session: Session) -> int:
    return session.view.facts.seq


def texts(session: Session) -> str:
    return json.dumps(session.prompt().request["messages"])


def test_the_same_list_again_writes_nothing() -> None:
    """Also in a session that was opened anew."""
    store = MemoryStore()
    session = open_session(store)
    first = session.follow(steps(5), system="Be brief.")
    assert (first.outcome, first.known) == ("grown", 0)
    before = entries(session)
    assert session.follow(steps(5), system="Be brief.").outcome == "same"
    session.close()
    again = open_session(store, new_id=counted_ids("again"))
    followed = again.follow(steps(5), system="Be brief.")
    assert (followed.outcome, followed.known, followed.written) == ("same", 11, 0)
    assert entries(again) == before


def test_what_is_new_is_written_with_one_commit() -> None:
    """However many messages it is."""
    store = MemoryStore()
    session = open_session(store)
    session.follow(steps(2))
    writer, commits = session._journal._writer, list[int]()
    append = writer.append

    def counted(drafts: Any, **options: Any) -> Any:
        commits.append(len(drafts))
        return append(drafts, **options)

    writer.append = counted  # type: ignore[method-assign]
    assert session.follow(steps(4), system="New.").outcome == "grown"
    assert commits == [5]


def test_a_log_without_branches_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that cannot be in the log are not looked up; as soon as the client has gone back once, they are."""
    session = open_session(MemoryStore())
    session.follow(steps(2))
    session.append(assistant("Done."))
    found: list[str] = []
    has = session._journal.has
    monkeypatch.setattr(session._journal, "has", lambda entry: (found.append(entry), has(entry))[1])

    assert session.follow([*steps(2), assistant("Done."), user("Go on.")]).outcome == "grown"
    session.append(assistant("Well."))
    assert found == []

    assert session.follow([*steps(2), assistant("Done."), user("Stop.")]).outcome == "branched"
    session.append(assistant("Fine."))
    assert session.follow([*steps(2), assistant("Done."), user("Go on."), assistant("Well.")]).known == 8
    assert found


def test_an_echo_of_a_reply_is_the_reply() -> None:
    """Clients drop thinking, complete arguments and trim texts."""
    session = open_session(dialect="anthropic")
    session.follow([user("Read it.")])
    reply = Message("assistant", (Thinking("Hm.", "signed"), Text("I will. "), READS), MODELS["anthropic"])
    session.append(reply)
    before = entries(session)
    completed = ToolCall("c1", "read", '{"limit": 3, "path": "a.py", "replace_all": false}')
    followed = session.follow([user("Read it."), assistant("I will.", completed), result("c1", "x = 1")])
    assert (followed.outcome, followed.known) == ("grown", 2)
    assert entries(session) == before + 1
    assert session.view.atoms[1].items[0].shown[0].part == Thinking("Hm.", "signed")


def test_a_lost_reply_is_given_up_and_found_again() -> None:
    """The client asks again as if nothing had come; the model says the same, or something else; the client goes back."""
    session = open_session()
    asked: list[Message] = [user("Which?")]
    session.follow(asked)
    session.append(assistant("The first."))
    assert session.follow(asked).outcome == "branched"
    assert "The first." not in texts(session)
    session.append(assistant("The first."))
    assert session.follow([*asked, assistant("The first."), user("Sure?")]).outcome == "grown"
    assert session.follow(asked).outcome == "branched"
    session.append(assistant("The second."))
    other = session.follow([*asked, assistant("The second."), user("Sure?")])
    assert other.outcome == "grown"
    back = session.follow([*asked, assistant("The first."), user("Sure?"), assistant("Yes.")])
    assert (back.outcome, back.known) == ("branched", 3)
    assert "The second." not in texts(session)


def test_words_that_were_said_before_are_said_again() -> None:
    """A host that appends the same reply after a retry gets an entry of its own, behind all that is on the branch; the client's
    list finds it there, also after it went elsewhere, and in another process."""
    store = MemoryStore()
    session = open_session(store)
    session.follow(steps(1))
    first = session.append(assistant("Both are alike."))
    session.follow([*steps(1), user("Once more.")])
    session.follow(steps(1))
    session.append(Note("beside"))

    again = session.append(assistant("Both are alike."))

    assert (again.body, again.id) == (first.body, f"2.{first.id}")
    listed = [*steps(1), assistant("Both are alike.")]
    told = session.follow(listed)
    assert (told.outcome, told.entries[-1]) == ("same", again.id)
    assert session.follow([*listed, user("And?")]).outcome == "grown"
    assert session.follow(listed).outcome == "branched"
    session.close()
    opened = open_session(store)
    told = opened.follow(listed)
    assert (told.outcome, told.entries[-1]) == ("same", again.id)
    assert opened.view.facts.head != first.id


def test_a_list_is_followed_after_a_rewind_to_before_it() -> None:
    """The host took everything back, and the client tells it again: it is in the prompt, also in another process."""
    store, ids = MemoryStore(), counted_ids("s")
    session = open_session(store, new_id=ids)
    before = session.append(system("Be careful."))
    listed = [user("Alpha?"), assistant("Beta."), user("Gamma?")]
    session.follow(listed)
    session.branches.rewind(before.id)
    assert session.follow(listed).outcome == "branched"
    assert all(word in texts(session) for word in ("Be careful.", "Alpha?", "Beta.", "Gamma?"))
    session.branches.rewind(before.id)
    session.close()
    opened = open_session(store, new_id=ids)
    assert opened.follow([user("Another."), assistant("Yes."), user("So?")]).known == 0
    assert "Another." in texts(opened)
    assert "Alpha?" not in texts(opened)
    assert opened.follow(listed).outcome == "branched"
    assert "Gamma?" in texts(opened)


def test_a_host_s_system_message_is_no_part_of_the_client_s_list() -> None:
    session = open_session()
    session.follow([user("Alpha?"), assistant("Beta.")])
    session.extend([system("Be careful."), user("Gamma?"), assistant("Delta.")])
    followed = session.follow([user("Alpha?"), assistant("Beta."), user("Gamma?"), assistant("Delta."), user("So?")])
    assert (followed.outcome, followed.written) == ("grown", 1)
    assert "Be careful." in texts(session)


def test_the_entries_of_a_list_are_those_of_the_branch() -> None:
    """The host goes back and says the same again, and back once more: a result that the client shortens is found each time."""
    session = open_session()
    listed = steps(2)
    first = session.follow(listed).entries
    session.branches.rewind(first[3])
    again = session.append(listed[4])
    assert session.follow(listed).entries == (*first[:4], again.id)
    shortened = [*listed[:4], result("c1", "[cleared]")]
    assert session.follow(shortened).outcome == "edited"
    assert "module 1" not in texts(session)
    session.branches.rewind(first[4])
    assert session.follow(listed).entries == first
    assert "module 1" in texts(session)


def test_a_message_that_was_refused_is_no_part_of_the_last_list() -> None:
    store = MemoryStore()
    faults, session = CommitFaults(store), open_session(store)
    listed = steps(1)
    session.follow(listed)
    faults.fail(is_kept=False)
    with pytest.raises(StoreUnavailable):
        session.append(assistant("Lost."))
    kept = session.append(assistant("Kept."))
    told = session.follow([*listed, assistant("Kept.")])
    assert (told.outcome, told.entries[-1]) == ("same", kept.id)
    shortened = [*listed[:2], result("c0", "[cleared]"), assistant("Kept.")]
    assert session.follow(shortened).outcome == "edited"


def test_shortened_results_are_folded_in_place() -> None:
    """As clients do to save tokens: two entries are written, the original can be recalled, the list goes on from there."""
    session = open_session()
    listed = steps(40)
    session.follow(listed)
    before, first = entries(session), session.view.atoms[1].items[1].id
    listed[2] = result("c0", "[old result cleared]")
    listed.append(assistant("Go on."))
    followed = session.follow(listed)
    assert (followed.outcome, followed.known) == ("edited", 81)
    assert entries(session) == before + 3
    assert "[old result cleared]" in texts(session)
    assert session.recall(first).startswith("module 0")
    listed.append(user("And now?"))
    assert session.follow(listed).outcome == "grown"
    listed[4] = result("c1", "[old result cleared]")
    assert session.follow([*listed, assistant("Well.")]).outcome == "edited"
    assert texts(session).count("[old result cleared]") == 2


def test_a_result_of_which_another_branch_has_an_entry_is_shortened_where_it_stands() -> None:
    """A branch with an edit has older entries than its list names; another branch may have these, and it is not shown."""
    session = open_session()
    calls = assistant("", ToolCall("c1", "read", "{}"), ToolCall("c2", "read", "{}"))
    begun = [user("Read both."), calls]
    first, second, cleared = result("c1", "one"), result("c2", "two"), result("c1", "[cleared]")
    session.follow([*begun, first, second, assistant("Done.")])
    edited = [*begun, cleared, second, assistant("Done.")]
    assert session.follow(edited).outcome == "edited"
    assert session.follow([*begun, cleared, second, assistant("Done, differently.")]).outcome == "branched"
    session.follow([*edited, user("Go on.")])
    session.follow([*begun, cleared, result("c2", "[cleared too]"), assistant("Done."), user("Go on.")])
    assert "[cleared too]" in texts(session)
    assert "two" not in texts(session)


def test_a_client_that_compacts_gets_a_branch() -> None:
    """Its summary is a message like any other, and what it no longer tells can still be recalled."""
    session = open_session()
    listed = steps(8)
    session.follow(listed, system="Be brief.")
    first = session.view.atoms[2].items[1].id
    compacted = [listed[0], user("Summary so far: seven modules read."), *listed[-2:]]
    followed = session.follow(compacted, system="Be brief.")
    assert (followed.outcome, followed.known) == ("branched", 1)
    assert "module 3" not in texts(session)
    assert session.recall(first).startswith("module 0")
    assert session.follow([*compacted, assistant("Next.")], system="Be brief.").outcome == "grown"
    assert session.follow([user("A new beginning.")]).outcome == "branched"
    assert texts(session).count("role") == 2  # the system prompt stays until another one comes


def test_the_system_prompt_is_a_parameter_of_the_call() -> None:
    """Another one takes its place, wherever it comes in the log; none leaves it as it is."""
    session = open_session()
    session.append(system("By hand."))
    session.follow(steps(1), system="First.")
    assert session.prompt().request["messages"][0]["content"] == "First."
    before = entries(session)
    session.follow(steps(1))
    assert entries(session) == before
    session.follow([{"role": "system", "content": "Second."}, *_chat(steps(1))])
    messages = session.prompt().request["messages"]
    assert [one["content"] for one in messages if one["role"] == "system"] == ["Second."]


def test_own_calls_are_no_part_of_the_client_s_list() -> None:
    """A reply with nothing else is never told; of a mixed one, the client's calls are."""
    session = open_session(limit=3_000)
    listed = steps(14)
    session.follow(listed)
    session.prompt()
    session.append(assistant("", ToolCall("r1", "search_context", '{"query": "module"}')))
    assert session.serve() == []
    session.append(assistant("Found it."))
    listed += [assistant("Found it."), user("Thanks.")]
    assert session.follow(listed).outcome == "grown"
    session.prompt()
    mixed = assistant(
        "", ToolCall("r2", "search_context", '{"query": "module"}'), ToolCall("k1", "read", '{"path": "a"}')
    )
    session.append(mixed)
    assert [call.name for call in session.serve()] == ["read"]
    listed += [assistant("", ToolCall("k1", "read", '{"path": "a"}')), result("k1", "x = 1")]
    before = entries(session)
    assert session.follow(listed).outcome == "grown"
    assert entries(session) == before + 1
    assert session.prompt().request["messages"][-1]["content"] == "x = 1"


def test_an_empty_list_is_refused() -> None:
    """Nothing is followed, and nothing is written."""
    session = open_session()
    with pytest.raises(BadInput, match="no message"):
        session.follow([])
    with pytest.raises(BadInput, match="both"):
        session.follow([user("a"), {"role": "user", "content": "b"}])
    assert entries(session) == 0


def test_a_message_that_was_changed_in_place_is_seen() -> None:
    """A client may keep its own dictionaries, and change one."""
    session = open_session()
    listed = _chat(steps(6))
    session.follow(listed)
    listed[2]["content"] = "[cleared]"
    assert session.follow(listed).outcome == "edited"
    assert "[cleared]" in texts(session)


def _chat(messages: list[Message]) -> list[dict[str, Any]]:
    plain = open_session()
    plain.extend(messages)
    return msgspec.json.decode(msgspec.json.encode(plain.prompt().request["messages"]))


def wires(messages: list[Message], dialect: str) -> list[dict[str, Any]]:
    """The list in a provider's format, as our own writer writes it."""
    plain = open_session(dialect=dialect)
    plain.extend(messages)
    request = plain.prompt().request
    return request.get("messages") or request.get("input") or request["contents"]


@pytest.mark.parametrize("dialect", sorted(MODELS))
def test_lists_of_every_format_are_followed(dialect: str) -> None:
    """Growing by one turn each time, with a session for another provider's model: one call, one commit, one prompt."""
    session, plain = open_session(dialect="openai_chat"), open_session(dialect="openai_chat")
    listed = steps(6)
    plain.extend(listed)
    for end in (1, 3, 5, 13):
        followed = session.follow(wires(listed[:end], dialect))
        assert followed.outcome == "grown"
        assert session.follow(wires(listed[:end], dialect)).outcome == "same"
        assert {one.span[0] for one in followed.messages} == set(range(len(wires(listed[:end], dialect))))
    names = [one["role"] for one in session.prompt().request["messages"]]
    assert names == [one["role"] for one in plain.prompt().request["messages"]]


@settings(deadline=None)
@given(seed=st.integers(0, 10**9))
def test_whatever_a_client_does_the_prompt_says_its_list(seed: int) -> None:
    """Grow, retry, regenerate, edit, compact, go back, a new system prompt, a session opened anew: after each of them an
    unpressed prompt is that of a session that was given the list at once."""
    assert follow_client(seed) == []


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_a_list_that_is_told_with_keys_is_followed_alike(seed: int) -> None:
    """Of such a list the messages that the log has are forgotten: they are read again where a client goes back behind an edit."""
    plain = ClientFollower.follow

    def follow(self: ClientFollower, given: Any, system: Any, keys: Any = None) -> Any:
        followed = plain(self, given, system, list(given))
        assert not any(one.told for one in self._heard)
        return followed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientFollower, "follow", follow)
        assert follow_client(seed) == []


def test_a_session_that_takes_edits_for_growth_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's moves find a session that does not look at the middle of a list."""
    same = ClientList.read

    def careless(self: ClientList, given: Any, keys: Any = None) -> Any:
        return same(self, given, [len(str(one)) > 1 for one in given])

    monkeypatch.setattr(ClientList, "read", careless)
    assert any(follow_client(seed) for seed in range(20))


@pytest.mark.parametrize("lead", [[], [{"role": "user", "parts": [{"text": "First."}]}]])
def test_words_that_stand_alone_in_a_list_are_followed(lead: list[Any]) -> None:
    """Gemini takes a string as a content: behind another message, it begins no reply."""
    with open_session(dialect="gemini") as session:
        given: list[Any] = [*lead, "Second."]
        session.follow(given)
        words = [part["text"] for one in session.prompt().request["contents"] for part in one["parts"]]
    assert words == ["First.", "Second."][-len(lead) - 1 :]
