"""`foveal tune --train`: a table, a verdict, weights as plain data, and a policy that names them."""

import json

import pytest

from foveal.analysis.tune.training import rows, training, trees
from foveal.session.policy_file import read_policy, read_weights

from .test_tune import conversation


@pytest.fixture
def traffic(tmp_path, monkeypatch):
    """A few small sessions, from which is learned as from large ones."""
    monkeypatch.setattr(rows, "LIMITS", (2_000,))
    monkeypatch.setattr(trees, "LEAST_HESSIAN", 2.0)
    monkeypatch.setattr(training, "LEAST_SESSIONS", 6)
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(json.dumps(conversation(name * 3)) + "\n" for name in "abcdef"))
    return path


def test_weights_are_written_with_a_policy_that_names_them(run, traffic, tmp_path):
    """Each in a folder of its own: the policy finds them from where it stands, and replays take it."""
    (tmp_path / "policies").mkdir()
    weights, policy = tmp_path / "weights.json", tmp_path / "policies" / "policy.toml"
    done = run("tune", "--train", traffic, "--budget", 4000, "--out", weights, "--policy", policy)
    assert done.code == 0, done.err
    assert read_policy(policy).summarise.weights == read_weights(weights)
    assert 'weights = "../weights.json"' in policy.read_text()
    assert run("replay", traffic, "--policy", policy, "--budget", 4000, "--json").code == 0


def test_the_figures_and_the_verdict_are_printed(run, traffic, tmp_path):
    """Beside the package's weights and recency, with intervals; the document has the same."""
    document = tmp_path / "train.json"
    done = run("tune", "--train", traffic, "--budget", 4000, "--folds", 2, "--json", document)
    assert done.code == 0, done.err
    found, said = json.loads(document.read_text()), " ".join(done.out.split())
    assert f"recency {found['recency']['value']:.3f}" in said
    assert found["folds"] == 2
    assert found["advice"][-1].split(":")[0] in said
    assert "--out weights.json writes the weights" in said


def test_nothing_is_written_if_there_are_too_few_sessions(run, tmp_path):
    """The bundled session is one."""
    done = run("tune", "--train", "--out", tmp_path / "weights.json", "--policy", tmp_path / "policy.toml")
    assert done.code == 2
    assert "1 of 1 session(s) are longer than 16,000 tokens" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--train", "none.jsonl"), "--budget N is missing"),
        (("--train", "--prices", "gpt-5"), "--prices does not go with --train"),
        (("--train", "--at-most", 0.5), "--at-most does not go with --train"),
        (("--train", "--policies", "small"), "--policies does not go with --train"),
        (("--train", "--policy", "p.toml"), "add --out weights.json"),
        (("--policy", "p.toml", "--budget", 4000), "--policy goes with --train"),
        (("--train", "--folds", 1), "folds is 1"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_is_read(run, words, said):
    """In one line."""
    done = run("tune", *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
