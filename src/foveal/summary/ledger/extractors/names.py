"""Extractor of identifiers that the model would have to look up again if it forgot them.

They are taken from calls (a used name is likely to be used again), from the words of users and the model, and from results.
Of a long result only the head, the tail and the lines that announce trouble are searched.
"""

import re
from collections.abc import Iterator

from foveal.summary.ledger.events import CallBegan, CallEnded, LedgerEvent, NamesSeen, SpokenWords
from foveal.text.calls.read_tools import squeeze, strings_in
from foveal.text.names import identifiers_in
from foveal.text.repair import json_object

# Values first: signs before them are rare in a text, words that may be labels are not.
_VALUE = re.compile(r"[:=#](?:(?<!#) )?[\"'#]{0,2}(?=[\w.@#+-]{0,63}?\d)([A-Za-z0-9#@][\w.@#+-]{2,63}+)")
_LABELS = "id number code port version hash sha zip key email amount price total balance date issue pr ticket"
_LABEL_ENDS = tuple(f"{label}{plural}" for label in _LABELS.split() for plural in ("", "s"))
_LABEL = re.compile(r"(?<!\w)[A-Za-z_]{2,40}\Z")
_LABEL_CHARS = 42
_KEY = re.compile(r"\"(\w{3,40})\" ?:")
_ID_KEY = re.compile(r"(?:id|number|port|pid|issue|pr)\Z")
_HEAD, _TAIL = 4_000, 1_500
_ALARMS, _ALARM_LINES, _ALARM_CHARS = ("rror", "ERROR", "FAIL", "panic", "xception"), 8, 300


def names(event: LedgerEvent) -> Iterator[NamesSeen]:
    match event:
        case CallBegan(fields=fields, arguments=arguments):
            # From the raw arguments: if they are one text of `key: value` lines, their fields have lost values.
            given = json_object(arguments)
            found = dict.fromkeys(
                identifiers_in(_sample(arguments if given is None else "\n".join(strings_in(given)))), ""
            )
            found |= {
                str(value): key for key, value in fields.items() if isinstance(value, int) and _ID_KEY.search(key)
            }
            yield NamesSeen({name: label for name, label in found.items() if squeeze(name) not in fields}, is_act=True)
        case SpokenWords(role="user" | "assistant", text=text) | CallEnded(text=text):
            sample = _sample(text)
            keys = frozenset(_KEY.findall(sample))
            found = {name: "" for name in identifiers_in(sample) if name not in keys}
            yield NamesSeen(found | dict(_labelled(sample)))
        case _:
            pass


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yield values with digits in them that follow a label: `order_id: 4711`, `issue #12`."""
    for found in _VALUE.finditer(text):
        at = found.start()
        before = text[max(0, at - _LABEL_CHARS) : at]
        if text[at] == "#":
            before = before[:-1] if before.endswith(" ") else ""
        before = before.removesuffix('"')
        if before.lower().endswith(_LABEL_ENDS) and (label := _LABEL.search(before)):
            yield found[1].rstrip(".:"), label[0]


def _sample(text: str) -> str:
    """Return the text, or of a long one the head, the tail and the first lines between that announce trouble."""
    if len(text) <= _HEAD + _TAIL:
        return text
    return "\n".join((text[:_HEAD], *_alarming(text, _HEAD, len(text) - _TAIL), text[-_TAIL:]))


def _alarming(text: str, start: int, end: int) -> Iterator[str]:
    for stem in _ALARMS:
        at = start
        for _ in range(_ALARM_LINES):
            at = text.find(stem, at, end)
            if at < 0:
                break
            first = max(text.rfind("\n", max(start, at - _ALARM_CHARS), at) + 1, at - _ALARM_CHARS)
            last = text.find("\n", at, at + _ALARM_CHARS)
            at = last if last >= 0 else at + _ALARM_CHARS
            yield text[first:at]
