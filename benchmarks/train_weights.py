"""Train the weights of relevance: how likely a name or a line that is folded will be needed again.

    python benchmarks/train_weights.py ../shared/data/*.jsonl.gz
    python benchmarks/train_weights.py sessions/*.jsonl --budget 32000 --out weights.json

The first form trains the package's weights, on the half of the sessions with the higher hashes of their ids; the other half is
for `benchmarks/run.py` and is never read here. The second form trains on all sessions, and first judges the result by
cross-validation against the package's weights and recency, at this budget. A policy uses the file by its key `weights`.
Seeded: the same sessions give the same bytes, in about two minutes for the package.
"""

import argparse
import hashlib
from pathlib import Path

from foveal.analysis.measurement.suite import Pick, load_all, sources_of
from foveal.analysis.recordings import Recording, read
from foveal_bench.training.report import advice, table
from foveal_bench.training.train import examples, sessions_of, train, trained

OUT = Path(__file__).resolve().parents[1] / "src" / "foveal" / "summary" / "relevance" / "weights.json"


def is_for_training(recording: Recording) -> bool:
    return hashlib.sha256(recording.id.encode("utf-8", "surrogatepass")).digest()[0] >= 128


def train_own(files: list[Path], budget: int, jobs: int) -> bytes:
    """Train on all sessions, print how good the weights are, and return their file."""
    loaded = load_all(sources_of(files), Pick(), jobs=jobs)
    training = train(loaded.cases, budget=budget, jobs=jobs)
    print("\n\n".join((table(training), *advice(training), *loaded.notes)))
    return training.weights.to_json()


def train_package(files: list[Path]) -> bytes:
    """Train on the training half of the sessions, and return the file of the weights."""
    sessions = sessions_of(one for file in sorted(files) for one in read(file) if is_for_training(one))
    found = examples(sessions)
    print(f"{len(sessions)} sessions, {len(found)} long enough")
    return trained(found).to_json()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--budget", type=int, help="train on all sessions, and judge the weights at this budget")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    data = train_own(given.files, given.budget, given.jobs) if given.budget else train_package(given.files)
    given.out.write_bytes(data)
    print(f"{given.out}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
