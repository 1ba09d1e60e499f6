"""A policy names weights: a file by its path from the policy's own, in Python as they are, in a log by their hash."""

import json

import msgspec
import pytest

from foveal.session.policy import Policy, Summarise, policy_from
from foveal.session.policy_file import MOST_BYTES, read_policy, read_weights
from foveal.summary.relevance.score import shipped_weights
from foveal.summary.relevance.weights import Tree, Weights
from foveal.values.errors import BadPolicy

STAGE = '[[stages]]\nfold = "summarise"\n'


@pytest.fixture
def weights(tmp_path):
    """A file of weights beside the policy."""
    made = Weights((Tree((), (0.5,)),), (Tree((), (0.25,)),))
    (tmp_path / "mine.json").write_bytes(made.to_json())
    return made


def policy(tmp_path, text):
    (tmp_path / "policy.toml").write_text(text)
    return read_policy(tmp_path / "policy.toml")


def test_a_stage_names_its_weights(tmp_path, weights, monkeypatch):
    """As seen from the policy's file, wherever the process runs."""
    monkeypatch.chdir("/")
    read = policy(tmp_path, STAGE + 'score = "learned"\nweights = "mine.json"\n')
    assert read.stages == (Summarise(weights=weights),)
    assert read == Policy(stages=(Summarise(weights=weights),))


def test_one_line_is_enough_for_all_stages(tmp_path, weights):
    """Of the default policy as well; whatever has weights of its own keeps them."""
    read = policy(tmp_path, 'weights = "mine.json"\n')
    assert {stage.weights for stage in read.stages if isinstance(stage, Summarise)} == {weights}
    assert [type(stage) for stage in read.stages] == [type(stage) for stage in Policy().stages]
    (tmp_path / "package.json").write_bytes(shipped_weights().to_json())
    own = policy(tmp_path, f'weights = "mine.json"\n{STAGE}weights = "package.json"\n{STAGE}')
    assert [isinstance(stage, Summarise) and stage.weights for stage in own.stages] == [shipped_weights(), weights]


def test_weights_are_read_in_yaml_as_well(tmp_path, weights):
    """By the same key."""
    (tmp_path / "policy.yaml").write_text("weights: mine.json\n")
    assert read_policy(tmp_path / "policy.yaml").summarise.weights == weights


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STAGE + 'weights = "none.json"\n', r"none.json: cannot be read \(No such file.*`\$.stages\[0\].weights`"),
        (STAGE + "weights = 3\n", r"Expected `Weights`, got `int` - at `\$.stages\[0\].weights`"),
        (
            STAGE + 'weights = "bad.json"\n',
            r"bad.json: weights: names\[0\]: node 0 leads to 0.*`\$.stages\[0\].weights`",
        ),
        (STAGE + 'weights = "policy.toml"\n', "policy.toml: no weights as `benchmarks/train_weights.py` writes them"),
        (STAGE + 'weights = "large.json"\n', f"larger than {MOST_BYTES:,} bytes; is it weights"),
        (STAGE + 'weights = "a\\u0000b"\n', "cannot be read"),
        (STAGE + 'weights = "."\n', "cannot be read"),
        (STAGE + 'score = "recency"\nweights = "mine.json"\n', "weights are not looked at with score = 'recency'"),
        ("weights = 3\n", "weights is 3; it is the name of a file"),
        ('weights = "none.json"\n', "none.json: cannot be read"),
        (f'weights = "mine.json"\n{STAGE}score = "recency"\n', "no stage is a `summarise` with a learned score"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, weights, text, said):
    """The policy's file, the weights' file, the stage."""
    bad = json.loads(weights.to_json()) | {"names": [[[[0, 1.0, 0, -1]], [0.0, 0.0]]]}
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    (tmp_path / "large.json").write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(BadPolicy, match=said) as caught:
        policy(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "policy.toml")) or "none.json" in text


def test_a_log_holds_the_hash_and_reads_it_back(tmp_path, weights):
    """The same policy, in a line of its length; the trees are not needed to build a prompt again."""
    mine = policy(tmp_path, 'weights = "mine.json"\n')
    text = mine.canonical()
    assert weights.name in text
    assert "leaves" not in text
    assert len(text) < 2_000
    logged = policy_from(msgspec.json.decode(text))
    assert logged == mine
    assert logged.canonical() == text


def test_a_table_in_memory_names_no_file():
    """It stands nowhere, so that no path could be seen from it."""
    with pytest.raises(BadPolicy, match="only a policy file can name a file"):
        policy_from({"stages": [{"fold": "summarise", "weights": "mine.json"}]})


def test_weights_are_read_by_themselves(tmp_path, weights):
    """For a policy that is made in Python."""
    assert Summarise(weights=read_weights(tmp_path / "mine.json")).weights == weights


def test_the_effective_policy_shows_its_weights(tmp_path, weights, capsys):
    """By their hash, in words and as a document."""
    from foveal.cli import main  # noqa: PLC0415 - the command alone needs it

    policy(tmp_path, STAGE + 'weights = "mine.json"\n')
    assert main(["policy", "show", "--policy", str(tmp_path / "policy.toml")]) == 0
    assert f"weights {weights.name}" in capsys.readouterr().out
    assert main(["policy", "show", "--policy", str(tmp_path / "policy.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"][0]["weights"] == weights.name
