"""What counts as a clue, and how old it is."""

from foveal.analysis.measurement.grounding import clues, common_clues, is_name, needs_of

from .sessions import recorded


def messages(**options):
    return [step.message for step in recorded(**options).steps]


def test_names_paths_numbers_and_long_lines_are_clues_and_plain_words_are_not():
    """A clue is what an agent can only have seen before."""
    found = clues("open src/app/main.py, call getUser and parse_url on 48213\nwords alone are nothing")
    assert {"src/app/main.py", "getUser", "parse_url", "48213"} <= found
    assert "words" not in found
    assert "alone" not in found


def test_a_run_without_a_break_takes_no_longer_for_being_long():
    """A megabyte of encoded data in one line is one line and no name; a quadratic pattern would never end."""
    assert clues("a1" * 500_000) == {"a1" * 500_000}


def test_an_action_needs_what_it_takes_over_with_the_age_of_where_it_was_seen_last():
    """Turn 15 uses a name that turn 2 saw, 25 messages before."""
    needs = list(needs_of(messages(uses={15: "secret_2_name"}), frozenset()))
    assert needs[15].far == (("secret_2_name", 25),)


def test_what_was_seen_a_moment_ago_is_near():
    """Turn 5 uses what turn 4 showed."""
    assert list(needs_of(messages(uses={5: "secret_4_name"}), frozenset()))[5].near == ("secret_4_name",)


def test_a_clue_that_most_sessions_share_is_no_evidence():
    """What stands in every session of the set is common; and common clues are needed by nobody."""
    sessions = [recorded(name=str(n)) for n in range(3)]
    common = common_clues(sessions)
    assert "secret_2_name" in common
    assert not any(need.far for need in needs_of(messages(uses={15: "secret_2_name"}), common))


def test_a_name_is_one_word_and_nothing_else():
    """`parse_url` is a name, `parse` and `the` are words."""
    assert is_name("parse_url,")
    assert not is_name("parse")
