"""How fast: writes `results/spine.md` and `results/spine.json`.

python benchmarks/spine.py                 # scaling, footprint, a big result
python benchmarks/spine.py --instructions  # and instruction counts by callgrind
python benchmarks/spine.py --peers         # and other engines, each in an environment of its own
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import big_result
import footprint
import scaling
import speed

RESULTS = Path(__file__).parent / "results"
Found = dict[str, Any]


def machine() -> Found:
    """Return the machine of the figures, without a date: the files change only when the figures do."""
    processor = "unknown"
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    system = f"{platform.system()} {platform.machine()}"
    return {"processor": processor, "cores": os.cpu_count(), "system": system, "python": platform.python_version()}


def verdict(value: float, limit: float) -> str:
    return "met" if value <= limit else "**missed**"


def table(header: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def steps_text(found: Found) -> str:
    rows = [
        (
            row["dialect"],
            row["store"],
            f"{row['median_us']['short']:.0f} / {row['median_us']['long']:.0f}",
            f"{row['mean_us']['short']:.0f} / {row['mean_us']['long']:.0f}",
            f"{row['folds']['short']} / {row['folds']['long']}",
            f"{row['median_ratio']:.2f}",
            f"{row['mean_ratio']:.2f}",
            verdict(max(row["median_ratio"], row["mean_ratio"]), 1.3),
        )
        for row in found["steps"]
    ]
    short, long = found["steps"][0]["sizes"]
    header = ("dialect", "store", "median µs", "mean µs", "folds", "median ratio", "mean ratio", "≤ 1.3")
    return (
        f"## Append + prompt at the end of {long:,} messages against {short:,}\n\n"
        f"Budget {found['budget']:,} tokens, {found['steps'][0]['steps']} steps each, interleaved, CPU time. A step is a prompt "
        "and the reply with its results appended; means include the steps that fold. Short / long.\n\n"
        + table(header, rows)
    )


def instructions_text(found: Found) -> str:
    counted = found.get("instructions")
    if not counted:
        return ""
    short, long = counted["instructions"]
    return (
        f"\nInstructions per step (callgrind, SQLite, openai_chat, {counted['steps']} steps, full size): {short / 1e6:.2f} "
        f"million after {counted['sizes'][0]:,} messages, {long / 1e6:.2f} million after {counted['sizes'][1]:,}: ratio "
        f"{counted['ratio']:.2f}. The two runs are at different points between folds and folds were not counted here, so that a "
        "ratio below one is not a gain; it shows only that nothing large grows with the history.\n"
    )


def opening_text(found: Found) -> str:
    opening = found["opening"]
    rows = [
        (f"{n:,}", f"{opening['file_mb'][i]:.0f}", f"{opening['cpu_ms'][i]:.1f}", f"{opening['wall_ms'][i]:.1f}")
        for i, n in enumerate(opening["sizes"])
    ]
    ratio, wall = opening["cpu_ratio"], opening["wall_ratio"]
    return (
        "\n## Opening a stored session and building its first prompt\n\n"
        f"SQLite, budget {found['budget']:,}, median of {opening['rounds']} interleaved openings in a process that has its "
        "vocabulary loaded.\n\n"
        + table(("messages", "file MB", "CPU ms", "wall ms"), rows)
        + f"\nRatio {ratio:.2f} of CPU, {wall:.2f} of wall time (≤ 1.5: {verdict(ratio, 1.5)}).\n"
    )


def roomy_text(found: Found) -> str:
    rows = [
        (
            f"{row['sizes'][1]:,} : {row['sizes'][0]:,}",
            f"{row['median_us']['short']:.0f} / {row['median_us']['long']:.0f}",
            f"{row['mean_us']['short']:.0f} / {row['mean_us']['long']:.0f}",
            f"{row['median_ratio']:.2f}",
            f"{row['mean_ratio']:.2f}",
        )
        for row in found["roomy"]
    ]
    return (
        "\n## Where everything fits\n\n"
        "Tiny messages and a window that holds all of them, so that a longer session is a longer prompt. Profiles "
        "point at the copies of the message list and the garbage collector's passes over them; the shares were not separated.\n\n"
        + table(("messages", "median µs", "mean µs", "median ratio", "mean ratio"), rows)
    )


def appends_text(found: Found) -> str:
    rows = [
        (row["batch"], f"{row['per_s']:,.0f}", f"{row['mb_per_s']:.1f}", f"{row['cpu_us']:.0f}")
        for row in found["appends"]
    ]
    return (
        "\n## Appends to SQLite\n\nEvery append is on the disk when it returns, so that wall time depends on the disk.\n\n"
        + table(("entries per append", "entries/s", "MB/s", "CPU µs per entry"), rows)
    )


def footprint_text(found: Found) -> str:
    base, here = found["base_import"]["import_ms"], found["here_import"]["import_ms"]
    packages = ", ".join(f"{name} {size:.1f}" for name, size in found["packages_mb"].items())
    return (
        "\n## Import and install\n\n"
        f"- `import foveal` over a bare interpreter, base install alone: {base:.0f} ms of CPU (< 100: {verdict(base, 100)}); "
        f"in the environment of this run, with whatever else is installed: {here:.0f} ms.\n"
        f"- Base install: {found['installed_mb']:.1f} MB (< 60: {verdict(found['installed_mb'], 60)}): {packages}.\n"
    )


def big_text(found: Found) -> str:
    return (
        "\n## A streamed result of 1 GB\n\n"
        f"{found['size_mb']:,.0f} MB into a SQLite store's artifacts: peak memory grew by {found['peak_growth_mb']:.1f} MB, "
        f"{found['mb_per_s']:.0f} MB/s of wall time (hashing and syncing included), {found['cpu_s']:.1f} s of CPU. The next "
        f"prompt shows its head and tail in {found['prompt_tokens']:,} tokens.\n"
    )


def peers_text(found: Found) -> str:
    own = found["foveal"]
    rows = [_peer_row(row, own["calls"]) for row in found["peers"]]
    notes = "".join(f"- {note}\n" for note in found["left_out"])
    return (
        f"\n## A full replay of {found['messages']:,} messages, {own['calls']:,} prompts\n\n"
        f"Budget {found['budget']:,}, the same exact counter for all. Foveal: {own['memory_s']:.2f} s of CPU with a memory store "
        f"(mean of a run before the others and one after), {own['sqlite_s']:.2f} s with SQLite; counting, folding, validating "
        "every prompt, keeping everything. ≈ is extrapolated from calls spread evenly over the session; > is a run stopped at "
        f"{found['cap_s']:.0f} s, whose remaining calls are charged at the mean so far.\n\n"
        + table(("engine", "calls measured", "CPU s for the replay", "times Foveal"), rows)
        + f"\n{notes}"
    )


def _peer_row(row: Found, calls: int) -> tuple[object, ...]:
    if "failed" in row:
        return row["engine"], 0, f"failed: {row['failed']}", ""
    whole = row["measured_calls"] == calls
    sign = "" if whole else "≈ " if row["measured_calls"] <= speed.SAMPLE else "> "
    measured = "all" if whole else row["measured_calls"]
    return row["engine"], measured, f"{sign}{row['total_s']:.1f}", f"{sign}{row['times_foveal']:.1f}"


def report(found: Found) -> str:
    about = found["machine"]
    text = (
        "# The spine: how fast\n\n"
        f"Measured on {about['cores']} cores of {about['processor']}, {about['system']}, Python {about['python']}, shared with "
        "other work: read the ratios, not the milliseconds. One run each.\n\n"
    )
    scaled = found["scaling"]
    text += (
        steps_text(scaled)
        + instructions_text(scaled)
        + opening_text(scaled)
        + roomy_text(scaled)
        + appends_text(scaled)
    )
    text += footprint_text(found["footprint"]) + big_text(found["big_result"])
    return text + (peers_text(found["peers"]) if "peers" in found else "")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the benchmarks and write results/spine.md and spine.json.")
    parser.add_argument("--peers", action="store_true", help="run other engines as well (installs them; ten minutes)")
    parser.add_argument("--instructions", action="store_true", help="count instructions with callgrind (minutes)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; nothing is written")
    given = parser.parse_args()
    found: Found = {"machine": machine()}
    print("scaling …", file=sys.stderr, flush=True)
    found["scaling"] = scaling.measure(instructions=given.instructions, quick=given.quick)
    print("footprint …", file=sys.stderr, flush=True)
    found["footprint"] = footprint.measure()
    print("a big result …", file=sys.stderr, flush=True)
    found["big_result"] = big_result.measure(1 << 26 if given.quick else big_result.GIGABYTE)
    if given.peers:
        found["peers"] = speed.measure(messages=1_000 if given.quick else 10_000, cap_s=5.0 if given.quick else 40.0)
    text = report(found)
    if not given.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "spine.json").write_text(json.dumps(found, indent=2) + "\n")
        (RESULTS / "spine.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
