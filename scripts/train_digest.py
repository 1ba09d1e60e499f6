"""Train the package's weights: how likely a name or a line that is folded will be needed again.

    .venv/bin/python scripts/train_digest.py ../shared/data/*.jsonl.gz

`foveal tune --train` for the weights of the package: the same code (`foveal.analysis.tune.training`), over half of the
sessions. They are split by the hash of their id; the half with the lower hashes is for measuring and is never read here. Seeded:
the same sessions give the same bytes. Writes src/foveal/summary/relevance/weights.json, in about two minutes;
`benchmarks/run.py` then says how good they are, on the other half.
"""

import argparse
import hashlib
from pathlib import Path

from foveal.analysis.recordings import Recording, read
from foveal.analysis.tune.training.training import examples, sessions_of, trained

OUT = Path(__file__).resolve().parents[1] / "src" / "foveal" / "summary" / "relevance" / "weights.json"


def is_for_training(recording: Recording) -> bool:
    return hashlib.sha256(recording.id.encode("utf-8", "surrogatepass")).digest()[0] >= 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    recordings = (one for file in sorted(given.files) for one in read(file) if is_for_training(one))
    sessions = sessions_of(recordings)
    found = examples(sessions)
    given.out.write_bytes(trained(found).to_json())
    print(f"{given.out}: {len(sessions)} sessions, {len(found)} long enough, {given.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
