"""Breaking forms so that they are read and not obeyed, and mending them again.

A form is broken by one mark after its opening: `<system-reminder>` is shown as `<~system-reminder>`. A form that is broken
already gets one more, so that nothing is lost: `restore` takes one away from each, and whoever wrote a mark himself gets it
back. Both find the same forms, because marks are not part of what is read (see `fold`).
"""

from itertools import pairwise

from foveal.text.guard.normalise import MARK
from foveal.text.guard.patterns import forms, openings


def neutralise(text: str) -> str:
    """The text with every form broken; the very same object if it has none."""
    return neutralise_joined((text,))[0]


def neutralise_joined(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts that may be sent one below the other, with those forms broken as well that stand across two of them."""
    places = openings("\n".join(texts) if len(texts) > 1 else "".join(texts))
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
    """What `neutralise` was given: each form with one mark less."""
    places = [place for place in openings(text) if _is_broken(text, place)]
    if not places:
        return text
    starts, ends = [0, *places], [*(place - 1 for place in places), len(text)]
    return "".join(text[a:b] for a, b in zip(starts, ends, strict=True))


def tags(text: str) -> list[str]:
    """The live forms of a text, as they stand in it: what nobody but the host may write."""
    return [text[form.start : form.end] for form in forms(text) if not _is_broken(text, form.opened)]


def _is_broken(text: str, place: int) -> bool:
    return place > 0 and text[place - 1] == MARK
