"""Policies from files: TOML and YAML, and what is said of files that cannot be used."""

import sys

import pytest

from foveal import MissingExtra, Policy, RetentionRule, open_store, read_policy
from foveal.session.policy import BudgetTable, Clear, Summarise, Superseded
from foveal.session.policy_file import MOST_BYTES, plain_yaml
from foveal.session.session import Session
from foveal.values.errors import BadPolicy

TOML = """
max_context_tokens = 80_000
recall = false

[[stages]]
fold = "clear"
keep = 0.5

[tools."git_*"]
mode = "summary"
limit_tokens = 400

[scenarios.ci.tools.bash]
mode = "reference"
hint = "Run it again."
"""
YAML = """
max_context_tokens: 80_000
recall: false
stages:
  - fold: clear
    keep: 0.5
tools:
  git_*: {mode: summary, limit_tokens: 400}
scenarios:
  ci:
    tools:
      bash: {mode: reference, hint: Run it again.}
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="policy.toml"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def yaml():
    pytest.importorskip("yaml", reason="PyYAML is not installed")


def refused(path):
    with pytest.raises(BadPolicy) as error:
        read_policy(path)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value)


def test_toml_is_read(written):
    """Stages, tools and scenarios stand where the file has them."""
    policy = read_policy(written(TOML))
    assert (policy.max_context_tokens, policy.recall, policy.stages) == (80_000, False, (Clear(keep=0.5),))
    assert policy.tools == {"git_*": RetentionRule("summary", limit_tokens=400)}
    assert policy.scenarios["ci"].tools == {"bash": RetentionRule("reference", hint="Run it again.")}


def test_stages_of_earlier_versions_are_read_as_their_successors(written):
    """A file that names `repeats` or `oldest` still works, with the options it gave."""
    old = '[[stages]]\nfold = "repeats"\nlast_resort = true\n[[stages]]\nfold = "oldest"\nkeep = 0.5\n'
    policy = read_policy(written(old))
    assert policy.stages == (Superseded(edited=False, last_resort=True), Summarise(share=0.05, keep=0.5))


@pytest.mark.parametrize("name", ["policy.yaml", "policy.yml", "POLICY.YML"])
@pytest.mark.usefixtures("yaml")
def test_yaml_says_the_same(written, name):
    """The same policy in either language is the same value."""
    assert read_policy(written(YAML, name)) == read_policy(written(TOML))


@pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff", "\r\n"])
@pytest.mark.parametrize("name", ["policy.toml", "policy.yaml"])
def test_an_empty_file_is_the_built_in_policy(written, text, name):
    """What is left out is decided by us, all of it included."""
    if name.endswith("yaml"):
        pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert read_policy(written(text, name)) == Policy()


def test_yaml_without_its_extra_is_named(written, monkeypatch):
    """Where PyYAML is not installed, the error says which extra brings it."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"policy\.yaml: .*\.\[yaml\]"):
        read_policy(written(YAML, "policy.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!!python/object/apply:os.system ['true']", "is not YAML that a policy may use"),
        ("recall: !!python/name:os.system", "is not YAML that a policy may use"),
        ("tools:\n  a: &a {mode: full}\n  b: *a\n", "line 3 has an alias"),
        ("tools: &t\n  a: *t\n", "line 2 has an alias"),
        ("tools:\n  a: {mode: full}\n  a: {mode: pin}\n", "'a' twice"),
        ("recall: false\nrecall: true\n", "'recall' twice"),
        ("- recall\n", "holds a list"),
        ("recall\n", "holds a str"),
        ("recall: [\n", "is not YAML that a policy may use"),
        ("recall: true\n---\nrecall: false\n", "is not YAML that a policy may use"),
        ("a: " + "[" * 5_000, "is not YAML that a policy may use"),
        ("recal: true\n", "Did you mean `recall`?"),
        ("tools: {read: {mode: 2001-01-01}}\n", "tools.read: "),
        ("2001-13-45: 1\n", "is not YAML that a policy may use"),
        ("? [a]\n: 1\n", "is not YAML that a policy may use"),
    ],
)
@pytest.mark.usefixtures("yaml")
def test_yaml_is_plain_data_or_an_error(written, text, said):
    """Tags, aliases, keys that stand twice and broken syntax are each refused in words that name the file."""
    assert said in refused(written(text, "policy.yaml"))


@pytest.mark.parametrize("name", ["policy.toml", "policy.yaml"])
def test_a_file_that_nobody_wrote_is_not_parsed(written, name):
    """Too large, missing, no text, no file: said before any parser sees it."""
    assert "larger than 1,048,576 bytes" in refused(written(b"#" * (MOST_BYTES + 1), name))
    assert "is not UTF-8 text" in refused(written(b"\xff\xfe", name))
    assert "cannot be read" in refused(written("", name).with_name("absent." + name[-4:]))
    assert "cannot be read" in refused(written("", name).parent)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tools.read]\nlimit_tokens = -1", "tools.read: limit_tokens is -1"),
        ("[tools.read]\nmode = 'sumary'", "tools.read: Invalid enum value 'sumary'"),
        ("[tools.read]\nlimit_token = 5", "tools.read: Object contains unknown field `limit_token`. Did you mean"),
        ("[toolkits.git]\ntools = ['git_*']\nhead = 2.0", "toolkits.git: head is 2.0"),
        ("[scenarios.ci.tools.read]\nttl_turns = 0", "scenarios.ci.tools.read: ttl_turns is 0"),
        ("[scenarios.ci]\ntool = 5", "scenarios.ci: Object contains unknown field `tool`. Did you mean `tools`?"),
        ("tools = 5", "$.tools"),
        ("tools = [", "is not TOML"),
    ],
)
def test_a_wrong_value_is_named_by_file_and_key(written, text, said):
    """Whoever has to mend it is told where it stands."""
    assert said in refused(written(text))


def test_a_scenario_that_is_not_there_is_named(tmp_path, monkeypatch):
    """The environment picked it, so the error names the variable, and the scenarios that there are."""
    monkeypatch.setenv("FOVEAL_SCENARIO", "nightly")
    path = tmp_path / "policy.toml"
    path.write_text(TOML)
    store = open_store(tmp_path / "agent.db")
    with pytest.raises(BadPolicy, match=r"\$FOVEAL_SCENARIO: there is no scenario 'nightly' in the policy; known: ci"):
        Session(store, "s", model="gpt-5", policy=read_policy(path))
    monkeypatch.setenv("FOVEAL_SCENARIO", "ci")
    Session(store, "s", model="gpt-5", policy=read_policy(path)).close()
    store.close()


def test_a_budget_table_is_read(written):
    assert read_policy(written("[budget]\nlimit = 9_000\n")).budget == BudgetTable(limit=9_000)


@pytest.mark.parametrize(
    ("text", "trigger", "target", "said"),
    [
        ("compact_threshold = 8_000", 8_000, None, "above 1, a number of tokens"),
        ("auto_compact = true\ncompact_threshold = 120_000.0", 120_000, None, "above 1, a number of tokens"),
        ("max_context_tokens = 100_000\ncompact_threshold = 0.8", 80_000, None, "share of the window of 100,000"),
        ("compact_threshold = 0.5\n[budget]\nlimit = 40_000", 20_000, None, "share of the window of 40,000"),
        ("max_context_tokens = 100_000\ncompact_threshold = 1", 91_808, None, "at most 1, a share"),
        ("compact_threshold = 9_000\n[budget]\ntarget = 5_000", 9_000, 5_000, "above 1, a number of tokens"),
    ],
)
def test_an_old_threshold_is_read_with_the_new_value(written, text, trigger, target, said):
    """Above 1 it is tokens, else a share of the window; the warning shows what to write, and in which sense it was read."""
    with pytest.warns(UserWarning, match="is an old form") as heard:
        policy = read_policy(written(text))
    assert (policy.budget.trigger, policy.budget.target) == (trigger, target)
    message = str(heard[0].message)
    assert f"budget.trigger = {trigger} in its place" in message
    assert said in message
    assert "max_context_tokens" in message
    assert policy.budget_for(400_000).trigger == trigger


@pytest.mark.parametrize("value", ["true", "false"])
def test_an_old_switch_alone_changes_nothing(written, value):
    """Prompts are always kept within the limit, and never folded before it without a trigger: both are said."""
    with pytest.warns(UserWarning, match=rf"auto_compact = {value} is an old form.*Leave it out"):
        assert read_policy(written(f"auto_compact = {value}")) == Policy()


@pytest.mark.usefixtures("yaml")
def test_old_keys_are_read_from_yaml_too(written):
    """The form in which most of them were written."""
    with pytest.warns(UserWarning, match="is an old form"):
        policy = read_policy(written("auto_compact: true\ncompact_threshold: 8000\n", "policy.yaml"))
    assert policy.budget.trigger == 8_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("auto_compact = 'yes'", "auto_compact is 'yes'; it is true or false"),
        ("auto_compact = false\ncompact_threshold = 0.8", "auto_compact is false, but compact_threshold = 0.8"),
        ("auto_compact = false\n[budget]\ntrigger = 5", "auto_compact is false, but budget.trigger = 5"),
        ("compact_threshold = 9\n[budget]\ntrigger = 5", "compact_threshold and budget.trigger = 5 say the same"),
        ("compact_threshold = 0", "compact_threshold is 0; it is a number of tokens above 1, or a share"),
        ("compact_threshold = -0.5", "compact_threshold is -0.5"),
        ("compact_threshold = true", "compact_threshold is True"),
        ("compact_threshold = nan", "compact_threshold is nan"),
        ("compact_threshold = inf", "compact_threshold is inf"),
        ("compact_threshold = '80%'", "compact_threshold is '80%'"),
        ("compact_threshold = 1.5", "above 1 it is a number of tokens, and whole"),
        ("compact_threshold = 0.8", "a share of a window that this file does not tell"),
        ("max_context_tokens = 10_000\ncompact_threshold = 12_000", "but the limit is 10,000 tokens"),
        ("compact_threshold = 5_000\n[budget]\ntarget = 6_000", "but budget.target is 6,000"),
        ("auto_compct = true", "Object contains unknown field `auto_compct`"),
    ],
)
def test_old_keys_that_contradict_are_named(written, text, said):
    """By file and key; nothing is guessed, and nothing is warned of."""
    assert said in refused(written(text))


def test_an_old_threshold_is_what_a_session_is_held_to(written):
    """A fold is due above it, far below the model's window."""
    with pytest.warns(UserWarning, match="is an old form"):
        policy = read_policy(written("compact_threshold = 8_000"))
    with Session(open_store(), "s", model="gpt-5", policy=policy) as session:
        assert session.compaction.pressure().limit == 8_000


@pytest.mark.usefixtures("yaml")
def test_yaml_of_something_else_is_named_so():
    """The one safe reader serves others, and speaks of what they read."""
    assert plain_yaml("a: 1", "x", "a skill") == {"a": 1}
    with pytest.raises(BadPolicy, match="x: holds a list where the keys of a skill belong"):
        plain_yaml("[1]", "x", "a skill")


def test_a_policy_extends_another(written, tmp_path):
    """Tables are joined key by key, lists and numbers replaced; the nearest file has the last word."""
    written('max_context_tokens = 9_000\n[tools.bash]\nmode = "summary"\nlimit_tokens = 10\n', "ground.toml")
    written('extends = "ground.toml"\nremind = true\n[tools.bash]\nlimit_tokens = 20\n', "middle.toml")
    policy = read_policy(written('extends = "middle.toml"\nmax_context_tokens = 7_000\n', "top.toml"))
    assert (policy.max_context_tokens, policy.remind) == (7_000, True)
    assert (policy.tools["bash"].mode, policy.tools["bash"].limit_tokens) == ("summary", 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('extends = "missing.toml"', "missing.toml: cannot be read"),
        ("extends = 3", "extends is 3; it is the name of a file"),
        ('extends = "own.toml"', "extends 'own.toml', which extends this file in turn"),
    ],
)
def test_a_policy_that_extends_nothing_is_an_error(written, text, said):
    """With the file and the key named."""
    with pytest.raises(BadPolicy, match=said):
        read_policy(written(text, "own.toml"))


def test_a_wrong_model_value_is_an_error_of_the_policy(written, tmp_path):
    """It names the key and the number, whoever opens the session."""
    policy = read_policy(written('[models."m"]\nwindow = -1\n'))
    with pytest.raises(BadPolicy, match="window of model 'm' is -1"):
        Session(open_store(), "s", model="m", policy=policy)
