"""Say which files in `benchmarks/results` are older than the code that they speak of.

    python scripts/check_results.py                      # a line for each file: current, stale or unknown
    python scripts/check_results.py --mark spine.md …    # these were made with the code as it is now

`benchmarks/results/made_with.json` holds, for each file, a hash of the code that it was made with: the package and the
benchmarks, without the rooms around the engine for results that are of the engine alone. A file without one is unknown. The
exit code is 1 if a file is stale: no figure of code that is gone is published.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARKS = "made_with.json"
CODE = ("src/foveal", "benchmarks")
"""Folders whose Python files decide a figure."""
AROUND = ("gateway", "integrations", "cli", "agent", "viewer")
"""Rooms that no figure of the engine depends on."""
OF_ALL = ("gateway.md", "clients.md", "dropins.md", "runs.md")
"""Results that depend on them."""


def tree_hash(root: Path, name: str) -> str:
    """Return the hash of the Python files that a result depends on: their names and their contents."""
    total, around = hashlib.sha256(), [] if name in OF_ALL else [root / "src/foveal" / room for room in AROUND]
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.py")):
            if any(map(path.is_relative_to, around)):
                continue
            total.update(f"{path.relative_to(root).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def states(root: Path) -> dict[str, str]:
    """Return the state of each file of results, by name."""
    results = root / "benchmarks" / "results"
    marks: dict[str, str] = json.loads((results / MARKS).read_text()) if (results / MARKS).exists() else {}
    names = sorted(path.name for path in results.iterdir() if path.is_file() and path.name != MARKS)
    return {
        name: "unknown" if name not in marks else "current" if marks[name] == tree_hash(root, name) else "stale"
        for name in names
    }


def mark(root: Path, names: Sequence[str]) -> None:
    """Write down that these files were made with the code as it is now."""
    results = root / "benchmarks" / "results"
    if missing := [name for name in names if not (results / name).is_file()]:
        raise SystemExit(f"there is no {missing[0]} in {results}")
    marks: dict[str, str] = json.loads((results / MARKS).read_text()) if (results / MARKS).exists() else {}
    marks |= {name: tree_hash(root, name) for name in names}
    (results / MARKS).write_text(json.dumps(marks, indent=1, sort_keys=True) + "\n")


def main(words: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mark", nargs="+", metavar="FILE", help="these were made with the code as it is now")
    args = parser.parse_args(words)
    if args.mark:
        mark(root, args.mark)
        return 0
    found = states(root)
    for name, state in found.items():
        print(f"{state:8} {name}")
    return 1 if "stale" in found.values() else 0


if __name__ == "__main__":
    sys.exit(main())
