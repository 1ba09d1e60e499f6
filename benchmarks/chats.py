"""Chats: is the evidence in the prompt when a question about something said long ago is asked?

    python benchmarks/chats.py                            # the chats on which nothing was chosen, at 32k
    python benchmarks/chats.py --training --budgets 16000 32000
    python benchmarks/chats.py --training --chats 1 --policies foveal

Prints the share of evidence lines that are held and on offer, mean over kinds of question, and the bill; beside Foveal, windows
on the same bytes. Then each chat is cut into ten sessions of one scope: how much of the evidence of *earlier sessions* is held?
Writes results/chats.md where `--write` is given. No model is asked: see README.md in this folder.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from foveal.analysis.measurement.outcome import Job, Looks
from foveal_bench.chat_sessions import SESSIONS, CutOutcome, cut_rows, measure_cut
from foveal_bench.chats import AS_MANY, Answer, Chat, ChatOutcome, by_kind, load_chats, mean, measure_chat, window_of
from foveal_bench.pooling import MAIN_PRICES, row_of
from foveal_bench.runners import own_runner
from foveal_bench.tables import markdown

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "goodai_ltm.jsonl.gz"
RESULT = Path(__file__).resolve().parent / "results" / "chats.md"
POLICIES = ("foveal", AS_MANY, "window, each turn", "window, batched to 0.5")
HEAD = (
    "policy",
    "held",
    "on offer",
    f"cost, {MAIN_PRICES}",
    "cached",
    "tokens a call",
    "over budget",
    "invalid",
    "refused",
    "ms a call",
)


def measured(budgets: Sequence[int], policies: Sequence[str], chat: Chat) -> list[ChatOutcome]:
    """Return the outcome of each policy and budget on one chat. A window of as many tokens comes after Foveal."""
    looks, found = Looks(chat.case), list[ChatOutcome]()
    for budget in budgets:
        sent: list[int] = []
        for name in policies:
            runner = window_of(sent) if name == AS_MANY else own_runner(name)
            found.append(measure_chat(chat, Job(name, budget), runner, looks=looks))
            if name == "foveal":
                sent = [tokens for tokens, *_ in found[-1].outcome.tokens]
    return found


def measured_cut(budgets: Sequence[int], chat: Chat) -> list[CutOutcome]:
    """Return the outcomes of one chat in sessions, of no scope and of one."""
    return [measure_cut(chat, budget, memory=memory) for budget in budgets for memory in (False, True)]


def cut_page(outcomes: Sequence[CutOutcome]) -> str:
    """Return the tables of chats in sessions."""
    text = [f"## Cut into {SESSIONS} sessions: evidence of earlier sessions\n"]
    for budget in dict.fromkeys(one.budget for one in outcomes):
        rows = cut_rows([one for one in outcomes if one.budget == budget])
        held = {one.policy: by_kind(one.answers, "held") for one in rows}
        figures = [
            (
                one.policy,
                f"{mean(held[one.policy]):.3f}",
                f"{sum(one.tokens) // max(1, len(one.tokens)):,}",
                f"{one.over:,}",
                f"{one.refused:,}",
            )
            for one in rows
        ]
        kinds = sorted({kind for of in held.values() for kind in of})
        text += [
            f"### {budget:,} tokens a call\n",
            f"Questions with evidence in earlier sessions: {len(rows[0].answers):,}.\n",
            markdown(("", "held", "tokens a call", "over budget", "refused"), figures),
            markdown(
                ("evidence held", *held), [(kind, *(f"{of[kind]:.2f}" for of in held.values())) for kind in kinds]
            ),
        ]
    return "\n".join(text)


def page(outcomes: Sequence[ChatOutcome]) -> str:
    """Return the tables: all kinds in one figure, then kind by kind."""
    groups = dict[tuple[int, str], list[ChatOutcome]]()
    for one in outcomes:
        groups.setdefault((one.outcome.budget, one.outcome.policy), []).append(one)
    text = list[str]()
    for budget in dict.fromkeys(budget for budget, _ in groups):
        at = {policy: found for (of, policy), found in groups.items() if of == budget}
        answers = {policy: [answer for one in found for answer in one.answers] for policy, found in at.items()}
        held = {policy: by_kind(found, "held") for policy, found in answers.items()}
        kinds = sorted({answer.kind for found in answers.values() for answer in found})
        asked = len(next(iter(answers.values())))
        text += [
            f"## {budget:,} tokens a call\n",
            f"Chats: {len(next(iter(at.values())))}; questions with evidence from far back: {asked:,}.\n",
            markdown(HEAD, [_line(policy, found, answers[policy]) for policy, found in at.items()]),
            markdown(
                ("evidence held", *held), [(kind, *(f"{of[kind]:.2f}" for of in held.values())) for kind in kinds]
            ),
        ]
        failed = {one.outcome.failed: policy for policy, found in at.items() for one in found if one.outcome.failed}
        text += [f"- {policy} gave up: {why}" for why, policy in failed.items()]
    return "\n".join(text)


def _line(policy: str, found: Sequence[ChatOutcome], answers: Sequence[Answer]) -> tuple[str, ...]:
    row = row_of([one.outcome for one in found], "chats")
    figures = row.figures
    return (
        policy,
        f"{mean(by_kind(answers, 'held')):.3f}",
        f"{mean(by_kind(answers, 'offered')):.3f}",
        f"{row.cost[MAIN_PRICES]:.3f}",
        f"{row.cached:.3f}",
        f"{figures.sent_tokens // max(1, figures.calls - figures.refused):,}",
        *(f"{number:,}" for number in (figures.over, figures.invalid, figures.refused)),
        f"{row.cpu_ms:.1f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--training", action="store_true", help="the half on which defaults are chosen")
    parser.add_argument("--chats", type=int, help="at most so many")
    parser.add_argument("--budgets", nargs="+", type=int, default=[32_000])
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is not there: nothing was measured")
    chats = load_chats(DATA, training=given.training)[: given.chats]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(given.jobs, len(chats)), context) as pool:
        parts = pool.map(partial(measured, given.budgets, given.policies), chats)
        outcomes = [one for part in parts for one in part]
        cut = [one for part in pool.map(partial(measured_cut, given.budgets), chats) for one in part]
    half = "training half: defaults were chosen on it" if given.training else "nothing was chosen on them"
    head = f"# Chats: what is held of what was said\n\nMade by `benchmarks/chats.py` ({half}).\n"
    text = "\n".join((head, page(outcomes), cut_page(cut)))
    if given.write:
        RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
