"""The legal cuts of a view: places where it may be divided into a summarised part and the rest.

A cut is a place between two atoms: 0 is before the first, `len(atoms)` after the last. Each rule returns the last place that it
allows (`before_…`) or the first (`after_tokens`); a legal cut is one that all of them allow. Two things need no rule, because an
atom cannot be cut: a call and its results, and the calls of one reply. Nor does content that stays wherever the cut is: pins,
requests, atoms that retention holds, the thinking that opened the running tool loop. The thinking of finished loops is removed by
every fold.
"""

from itertools import accumulate, takewhile

from foveal.project.atoms import unseen_from
from foveal.project.view import View


def legal_cuts(view: View, *, tokens: int | None, turns: int, messages: int, least: int) -> set[int]:
    """Return the cuts that keep the newest `tokens`, `turns` and `messages`, and cover more than `least` tokens.

    Place 0, which covers nothing, is always among them. None for `tokens` keeps not even the newest atom.
    """
    ends = [before_open_calls(view), before_turns(view, turns), before_messages(view, messages)]
    if tokens is not None:
        ends.append(before_tokens(view, tokens))
    return {0, *range(after_tokens(view, least), min(ends) + 1)}


def before_open_calls(view: View) -> int:
    """Return the last cut that is not after a call which still waits for its result."""
    waiting = (i for i, atom in enumerate(view.atoms) if atom.kind == "tools" and None in atom.answers)
    return min((i for i in waiting if i >= view.transcript.settled), default=len(view.atoms))


def before_tokens(view: View, tokens: int) -> int:
    """Return the last cut that keeps the newest atoms that fit in `tokens` together, and however large they are, the very
    newest and those that the model has not seen yet."""
    end, left = len(view.atoms), tokens
    unseen = min(unseen_from(view.atoms), len(view.atoms) - 1)
    while end and (left >= view.atoms[end - 1].size.tokens or end > unseen):
        end -= 1
        left -= view.atoms[end].size.tokens
    return end


def before_messages(view: View, messages: int) -> int:
    """Return the last cut that keeps the newest messages."""
    end, left = len(view.atoms), messages
    while end and left > 0:
        end -= 1
        left -= len(view.atoms[end].items)
    return end


def before_turns(view: View, turns: int) -> int:
    """Return the last cut that keeps the newest turns, each from its user message on."""
    words = [i for i, atom in enumerate(view.atoms) if atom.items and atom.items[0].role == "user"]
    if not turns:
        return len(view.atoms)
    return words[-turns] if len(words) >= turns else 0


def after_tokens(view: View, tokens: int) -> int:
    """Return the first cut that covers more than `tokens`, the size of the summary: earlier ones move the prefix for nothing.
    If none does, it is one place beyond the last."""
    sizes = (atom.size.tokens * (not atom.is_held and atom.kind != "system") for atom in view.atoms)
    return 1 + sum(1 for _ in takewhile(lambda covered: covered <= tokens, accumulate(sizes)))
