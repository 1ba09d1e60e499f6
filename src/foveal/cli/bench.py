"""Ask a real model with whole and with folded prompts of your own sessions, and compare its next actions.

Recorded calls whose prompt Foveal would fold are drawn from files that `foveal replay` reads. The model gets each whole prompt
twice and each folded one twice. The price is shown before anything is sent, and must be confirmed. See docs/ask.md.
"""

import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from foveal.analysis.agreement.answers import AnswerFile, opened_answers
from foveal.analysis.agreement.estimate import Estimate
from foveal.analysis.agreement.experiment import head_of, make_trials, missing, price_of
from foveal.analysis.agreement.report import (
    ALIGN,
    HEAD,
    AgreementReport,
    bill_texts,
    cells,
    document,
    report,
    survey_text,
)
from foveal.analysis.agreement.sample import AskTerms, SampledCall, Survey, askable_pairs, survey
from foveal.analysis.agreement.senders import opened_sender
from foveal.analysis.agreement.trials import Asker, Trial
from foveal.analysis.replay.report import counted, usd
from foveal.cli.arguments import add_json, positive
from foveal.cli.budget import with_budget
from foveal.cli.files import input_files
from foveal.cli.output import Output, complain
from foveal.cli.progress import bar, progress
from foveal.dialects import find_dialect
from foveal.models.catalogue import find
from foveal.session.model_setup import REPLY_TOKENS
from foveal.session.policy import Policy
from foveal.session.policy_file import read_policy
from foveal.values.errors import BadInput

_NOT_CONFIRMED = 1


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="recordings; - for standard input")
    parser.add_argument(
        "--ask", metavar="MODEL", help="the model to ask; needed: without it there is nothing to compare"
    )
    parser.add_argument("--calls", metavar="N", type=positive, default=30, help="recorded calls to draw (default: 30)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--budget", metavar="N", type=positive, help="the most tokens of a folded prompt")
    parser.add_argument(
        "--policy", metavar="FILE", type=Path, help="a policy in TOML or YAML; --budget overrides its budget"
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="an address other than the provider's, OpenAI-compatible or alike"
    )
    parser.add_argument("--key-env", metavar="NAME", help="the environment variable with the key for --endpoint")
    parser.add_argument(
        "--dialect", metavar="D", help="wire format (default: the model's; of an --endpoint openai_chat)"
    )
    parser.add_argument(
        "--reply-tokens",
        metavar="N",
        type=positive,
        default=REPLY_TOKENS,
        help=f"of a reply (default: {REPLY_TOKENS:,})",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=positive, default=4, help="calls to ask about at a time (default: 4)"
    )
    parser.add_argument(
        "--output", metavar="OUT", type=Path, help="keep answers, one line of JSON each; resumes if it exists"
    )
    parser.add_argument("--yes", action="store_true", help="send without asking back; the price is shown all the same")
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    terms = _terms(args)
    if args.output and args.output.resolve() in {file.resolve() for file in args.files}:
        raise BadInput(f"{args.output} is one of the recordings; name another file to write to")
    with input_files(args.files) as files:
        with progress(() if out.is_json else files) as tick:
            found = survey(files, terms, calls=args.calls, seed=args.seed, tick=tick)
        for note in found.notes:
            complain(note)
        if not found.sample:
            raise BadInput(_nothing_drawn(found))
        with opened_answers(args.output, head_of(terms, url=args.endpoint, seed=args.seed), found.sample) as answers:
            left = missing(found.sample, answers)
            price = price_of(terms, left)
            if left and not _is_confirmed(args, out, found, price):
                return _NOT_CONFIRMED
            if left:
                _ask(args, terms, files, left=left, answers=answers, price=price)
            done = report(terms.model, found, answers.by_trial())
    if out.is_json:
        out.document(document(done))
    else:
        _print(done, out)
    return 0


def _terms(args: Namespace) -> AskTerms:
    if not args.ask:
        raise BadInput(
            "--ask MODEL is missing: the model whose next actions are compared, such as `--ask gpt-5-mini --budget 32000`. "
            "Without a model, `foveal replay` shows bills and `foveal tune` compares policies"
        )
    policy = read_policy(args.policy) if args.policy else Policy()
    if args.budget:
        policy = with_budget(policy, args.budget)
    own = "openai_chat" if args.endpoint else find(args.ask, policy.models).dialect
    return AskTerms(args.ask, find_dialect(args.dialect or own).name, policy, args.reply_tokens)


def _nothing_drawn(found: Survey) -> str:
    if found.folded > found.beyond_window:
        return "no call was drawn"
    if found.folded:
        return f"the model takes the whole prompt of none of the {counted(found.folded, 'folded call')}; ask one with more room"
    return f"none of {counted(found.calls, 'recorded call')} would be folded; name a smaller --budget"


def _is_confirmed(args: Namespace, out: Output, found: Survey, price: Estimate) -> bool:
    """Show the price, and return whether it is agreed to: by `--yes`, or by a person at a terminal."""
    if out.is_json:
        if args.yes:
            complain(_price_text(args.ask, price))
        else:
            out.document({"would_ask": price, "survey": {"calls": found.calls, "folded": found.folded}})
        return args.yes
    out.wrapped(survey_text(found))
    out.wrapped(_price_text(args.ask, price))
    if args.yes:
        return True
    if not (out.is_terminal and sys.stdin.isatty()):
        out.line("Nothing was sent. Add --yes to send.")
        return False
    out.stream.write("Send? [y/N] ")
    out.stream.flush()
    is_agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not is_agreed:
        out.line("Nothing was sent.")
    return is_agreed


def _price_text(model: str, price: Estimate) -> str:
    size = f"{counted(price.requests, 'request')} to {model}, {price.input_tokens:,} tokens"
    if price.about_usd is None or price.most_usd is None:
        return f"{size}; its price is not known (a policy's [models] can name it)."
    return (
        f"{size}: about {usd(price.about_usd)}, at most {usd(price.most_usd)} if every reply is as long as it may be and every "
        "folded prompt recalls as often as it may."
    )


def _ask(
    args: Namespace,
    terms: AskTerms,
    files: Sequence[Path],
    *,
    left: dict[SampledCall, list[Trial]],
    answers: AnswerFile,
    price: Estimate,
) -> None:
    wanted = {call.digest: call.session for call in left}
    with (
        opened_sender(terms.dialect, url=args.endpoint, key_variable=args.key_env) as sender,
        bar(price.requests, "asking", least=1) as tick,
    ):
        ended = threading.Event()
        asker = Asker(terms, sender, is_provider=not args.endpoint, pause=ended.wait)
        pairs = askable_pairs(files, terms, wanted)
        make_trials(asker, pairs, left, answers, jobs=args.jobs, most_usd=price.most_usd, ended=ended, tick=tick)


def _print(done: AgreementReport, out: Output) -> None:
    out.line()
    out.table(HEAD, [cells(one.likeness, one) for one in done.overall], ALIGN)
    if len(done.by_reach) > 1:
        out.line()
        rows = [cells(name, one) for name, one in done.by_reach.items()]
        out.table(("target, by the share left", *HEAD[1:]), rows, ALIGN)
    out.line()
    for text in bill_texts(done):
        out.wrapped(text)
