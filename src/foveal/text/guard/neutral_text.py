"""Neutralising: forms are broken so that a model reads them and does not obey them. `restore` reverses it.

A form is broken by one mark after its opening: `<system-reminder>` is shown as `<~system-reminder>`. A form that is broken
already gets one more, so that nothing is lost: `restore` removes one mark from each, and an author who wrote a mark gets it
back. Both functions find the same forms, because `normalise` removes the marks.
"""

from itertools import pairwise

from foveal.text.guard.normalise import MARK
from foveal.text.guard.patterns import forms


def neutralise(text: str) -> str:
    """Return the text with every form broken; the very same object if it has none."""
    return neutralise_joined((text,))[0]


def neutralise_joined(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts that may be sent one below the other, with forms broken in each of them and across two of them."""
    places = [form.opened for form in forms("\n".join(texts) if len(texts) > 1 else "".join(texts))]
    if not places:
        return texts
    broken, start, first = list[str](), 0, 0
    for text in texts:
        end, last = start + len(text), first
        while last < len(places) and places[last] <= end:
            last += 1
        here = [0, *(place - start for place in places[first:last]), len(text)]
        broken.append(MARK.join(text[a:b] for a, b in pairwise(here)) if last > first else text)
        start, first = end + 1, last
    return tuple(broken)


def restore(text: str) -> str:
    """Return the text that `neutralise` was given: each form with one mark less."""
    places = [form.opened for form in forms(text) if _is_broken(text, form.opened)]
    if not places:
        return text
    starts, ends = [0, *places], [*(place - 1 for place in places), len(text)]
    return "".join(text[a:b] for a, b in zip(starts, ends, strict=True))


def tags(text: str) -> list[str]:
    """Return the live forms of a text, verbatim. Only the host may write them."""
    return [text[form.start : form.end] for form in forms(text) if not _is_broken(text, form.opened)]


def _is_broken(text: str, place: int) -> bool:
    return place > 0 and text[place - 1] == MARK
