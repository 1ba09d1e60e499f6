"""Rules, templates and catalogues are data, and wrong data is found when it is read."""

import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal import BadInput
from foveal.context.reminders import ReminderRule, Trigger
from foveal.context.reminders.catalogues import CATALOGUES, CHINESE, ENGLISH
from foveal.context.reminders.rulebook import BUILT_IN, rulebook
from foveal.context.templates import compile_template
from foveal.text.display import one_line
from foveal.values.errors import BadPolicy
from foveal.values.events import Thresholds


def untranslated(book):
    """The rules that speak English because the language of the book has no text for them."""
    return {ready.rule.id for ready in book.rules if ready.language != book.language}


def test_every_built_in_rule_speaks_both_languages():
    """No rule without a text, no text without a rule, and the same placeholders in both."""
    ids = {rule.id for rule in BUILT_IN}
    assert set(ENGLISH) == ids == set(CHINESE)
    for name in ids:
        assert set(compile_template(ENGLISH[name], name).names) == set(compile_template(CHINESE[name], name).names)
    assert untranslated(rulebook(language="zh")) == set()


def test_english_is_english():
    """The default says nothing in another language, and names no tool that a host may not have."""
    assert all(text.isascii() for text in ENGLISH.values())
    assert not any("_" in text.replace("{", "") for text in ENGLISH.values())


@pytest.mark.parametrize(
    "words", ["do not mention", "don't mention", "never mention", "do not tell", "不要告诉", "不要提"]
)
def test_no_text_asks_for_secrecy(words):
    """Secrecy is what makes a genuine reminder look like an attack."""
    assert not any(words in text.lower() for texts in CATALOGUES.values() for text in texts.values())


def test_a_rule_of_the_same_id_replaces_a_built_in_one_where_it_stands():
    """Order, and with it who is given room first, does not depend on who wrote a rule."""
    book = rulebook([ReminderRule("mine", "always", "Hi."), ReminderRule("steps_left", "steps_left", "{left}!")])
    ids = [ready.rule.id for ready in book.rules]
    assert ids == [*(rule.id for rule in BUILT_IN), "mine"]
    assert book.rules[ids.index("steps_left")].template.fill({"left": 1_234}) == "1,234!"


def test_a_built_in_rule_can_be_switched_off():
    """By its id alone."""
    assert "streak" not in [ready.rule.id for ready in rulebook([ReminderRule("streak", off=True)]).rules]


def test_a_missing_text_is_said_in_english():
    """A catalogue may be partial; what it lacks is named."""
    book = rulebook(language="fr", catalogues={"fr": {"steps_left": "Étapes restantes : {left}."}})
    assert untranslated(book) == {rule.id for rule in BUILT_IN} - {"steps_left"}


def test_a_hosts_own_text_is_not_overruled_by_our_translation():
    """A template given for a built-in id holds in every language that the host itself did not translate it to."""
    rule = ReminderRule("steps_left", "steps_left", "Nur noch {left}.")
    (ready,) = [one for one in rulebook([rule], language="zh").rules if one.rule.id == "steps_left"]
    assert (ready.template.fill({"left": 2}), ready.language) == ("Nur noch 2.", "zh")
    texts = {"fr": {"steps_left": "Encore {left}."}}
    (ready,) = [one for one in rulebook([rule], language="zh", catalogues=texts).rules if one.rule is rule]
    assert ready.language == "en"


def refused(said, *rules, **options):
    with pytest.raises(BadPolicy, match=said):
        rulebook(rules, **options)


def test_what_is_not_known_is_named_with_its_key_and_the_nearest():
    """Trigger, placeholder, bound, language, id of a text: found when read, never in front of a model."""
    refused(r"reminders.r.trigger: .*'step_left'.*`steps_left`", ReminderRule("r", "step_left", "Hi."))
    refused(r"reminders.r.trigger: .*'fact:No Name'", ReminderRule("r", "fact:No Name", "Hi."))
    refused(r"reminders.r.template: nothing fills \{lef\}.*`left`", ReminderRule("r", "steps_left", "{lef}"))
    refused(r"reminders.r.at_most: .*'lefts'.*`left`", ReminderRule("r", "steps_left", "Hi.", at_most={"lefts": 1}))
    refused(r"reminders.r.equal: .*'x'", ReminderRule("r", "steps_left", "Hi.", equal={"x": 1}))
    refused(r"reminders.r: has no template", ReminderRule("r", "steps_left"))
    refused(r"language: .*'zh-CN'.*", language="zh-CN")
    refused(r"catalogues.fr.step_left: .*`steps_left`", catalogues={"fr": {"step_left": "x"}})
    refused(r"catalogues.fr.steps_left: nothing fills \{x\}", catalogues={"fr": {"steps_left": "{x}"}})
    refused("there twice", ReminderRule("r", "always", "a"), ReminderRule("r", "always", "b"))
    refused("there already", triggers=[Trigger("always", frozenset(), lambda _: None)])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"id": "My Rule"}, "needs an id"),
        ({"id": "r"}, "has no trigger"),
        ({"id": "r", "trigger": "always", "every": 0}, "every is 0"),
        ({"id": "r", "trigger": "always", "every": 2, "once": True}, "both once and every"),
    ],
)
def test_a_wrong_rule_is_refused(fields, said):
    """Each field is checked where it is given."""
    with pytest.raises(BadPolicy, match=said):
        ReminderRule(**fields)


def test_rules_are_read_from_a_policy_file():
    """Rules, catalogues and thresholds are plain tables; what is not a field is an error."""
    table = tomllib.loads("""
        language = "zh"

        [pressure]
        info = 0.5

        [[reminders]]
        id = "steps_left"
        trigger = "steps_left"
        at_most = { left = 10 }
        every = 2

        [[reminders]]
        id = "branch"
        trigger = "fact:branch"
        template = "The branch is {branch}."
        equal = { branch = "main" }

        [[reminders]]
        id = "streak"
        off = true

        [catalogues.zh]
        branch = "当前分支：{branch}。"
    """)
    rules = msgspec.convert(table["reminders"], tuple[ReminderRule, ...])
    book = rulebook(rules, language=table["language"], catalogues=table["catalogues"])
    assert book.rules[-1].template.fill({"branch": "main"}) == "当前分支：main。"
    assert msgspec.convert(table["pressure"], Thresholds).level(50, 100) == "info"
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"id": "r", "trigger": "always", "templat": "x"}, ReminderRule)


def test_a_rule_survives_the_log():
    """What is written of a rule is what was said of it."""
    assert msgspec.json.decode(msgspec.json.encode(BUILT_IN), type=tuple[ReminderRule, ...]) == BUILT_IN
    assert msgspec.json.encode(ReminderRule("r", off=True)) == b'{"id":"r","off":true}'


@pytest.mark.parametrize("shares", [{"info": 0}, {"info": 0.9}, {"critical": 1.1}, {"warning": float("nan")}])
def test_pressure_rises(shares):
    """Levels that could not be told apart are refused."""
    with pytest.raises(BadPolicy, match="shares of the limit that rise"):
        Thresholds(**shares)


@pytest.mark.parametrize("text", ["{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}", "{", "}", "{}", "{A}", "{ a }", "{{}"])
def test_a_template_reaches_into_nothing(text):
    """Anything but a plain name in braces is refused."""
    with pytest.raises(BadPolicy, match=r"k: .* is no placeholder"):
        compile_template(text, "k")


@given(st.text(), st.text(), st.text())
def test_a_template_is_filled_in_one_pass(before, value, after):
    """Text comes out as it went in, whatever the value looks like."""
    escaped = [piece.replace("{", "{{").replace("}", "}}") for piece in (before, after)]
    assert compile_template("{x}".join(escaped), "k").fill({"x": value}) == before + value + after


def test_a_value_that_is_missing_is_named():
    """Whoever fills a template too little is told what it lacks."""
    with pytest.raises(BadInput, match=r"\{left\}.*`lef`"):
        compile_template("{left}", "k").fill({"lef": 1})


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_short_line(text, most):
    """Printable apart from lone and private code points, no line break, no longer than asked for."""
    line = one_line(text, most)
    assert len(line.splitlines()) <= 1
    assert len(line) <= most + 1
    assert not set("\0\n\r\t\u200b\u202e\ufeff") & set(line)
