"""Neutralising: forms are broken so that a model reads them and does not obey them. `restore` reverses it.

A form is broken by one mark after its opening: `<system-reminder>` is shown as `<~system-reminder>`. A form that is broken
already gets one more, so that nothing is lost: `restore` removes one mark from each, and an author who wrote a mark gets it
back. Both functions find the same forms, because `normalise` removes the marks.

A text that was neutralised and then changed (cleaned, cut, put together anew) may hold forms that were in neither of its
pieces. `neutralise_live` breaks those and no others.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeAlias

from foveal.text.guard.normalise import MARK
from foveal.text.guard.patterns import Form, forms

Forms: TypeAlias = Callable[[str], list[Form]]
"""Finds the forms of a text that count."""


def neutralise(text: str, find: Forms = forms) -> str:
    """Return the text with every form broken; the very same object if it has none."""
    return neutralise_joined((text,), find)[0]


def neutralise_live(text: str, find: Forms = forms) -> str:
    """Return the text with every form broken that is not broken yet; the very same object if there is none."""
    return _marked(text, (form.opened for form in find(text) if not _is_broken(text, form.opened)))


def neutralise_joined(texts: tuple[str, ...], find: Forms = forms) -> tuple[str, ...]:
    """Return texts that may be sent one below the other, with forms broken in each of them and across two of them."""
    places = [form.opened for form in find("\n".join(texts) if len(texts) > 1 else "".join(texts))]
    if not places:
        return texts
    broken, start, first = list[str](), 0, 0
    for text in texts:
        end, last = start + len(text), first
        while last < len(places) and places[last] <= end:
            last += 1
        broken.append(_marked(text, (place - start for place in places[first:last])))
        start, first = end + 1, last
    return tuple(broken)


def restore(text: str, find: Forms = forms) -> str:
    """Return the text that `neutralise` was given: each form with one mark less."""
    places = [form.opened for form in find(text) if _is_broken(text, form.opened)]
    if not places:
        return text
    starts, ends = [0, *places], [*(place - 1 for place in places), len(text)]
    return "".join(text[a:b] for a, b in zip(starts, ends, strict=True))


def tags(text: str) -> list[str]:
    """Return the live forms of a text, verbatim. Only the host may write them."""
    return [text[form.start : form.end] for form in forms(text) if not _is_broken(text, form.opened)]


def _marked(text: str, places: Iterable[int]) -> str:
    here = [0, *places, len(text)]
    return MARK.join(text[a:b] for a, b in pairwise(here)) if len(here) > 2 else text


def _is_broken(text: str, place: int) -> bool:
    return place > 0 and text[place - 1] == MARK
