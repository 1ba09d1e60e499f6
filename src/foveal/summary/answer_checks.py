"""Checks of an answer by its wording alone, without understanding it.

Every function takes time linear in the text: an answer may be hostile, and ten megabytes long.
"""

import re
import unicodedata
import zlib
from collections import Counter
from itertools import islice

import msgspec

from foveal.text.lazy_pattern import lazy_pattern

MOST_QUOTED = 0.6
"""Largest share of a summary that may be copied from the transcript: constraints are quoted on purpose, paths occur by
nature."""

MOST_OF_RULES = 0.3
"""Largest share that may be copied from the rules of the task: the headings are, and little else."""

_THINKING = lazy_pattern(r"\s{0,100}<(think|thinking|analysis|reasoning|scratchpad)>", re.I)
_CALL_TAG = lazy_pattern(
    r"^[ \t]{0,16}(?:<\|?(?:tool_calls?|function_calls?|tool_use|invoke|python_tag)\b|<function=|<｜tool|\[TOOL_CALLS\]"
    r"|functions\.\w{1,64}\()",
    re.I | re.M,
)
_JSON_LINE = re.compile(r"^[ \t]{0,16}[\[{]", re.M)
_CALL_TYPE = lazy_pattern(
    r'"type"\s{0,4}:\s{0,4}"(?:tool_use|tool_call|function|function_call)"|"(?:tool_calls|function_call)"\s{0,4}:'
)
_CALL_KEYS = (re.compile(r'"name"\s{0,4}:'), re.compile(r'"(?:arguments|parameters|input)"\s{0,4}:'))
_LOOK_AHEAD = 2_000
_LINES_LOOKED_AT = 50
_REFUSAL = lazy_pattern(
    r"(?:(?:i['’]m|i am)[^\n.]{0,12} sorry|sorry|unfortunately,? i|i apologi[sz]e)[^\n]{0,60}"
    r"(?:can(?:no|['’])t|cannot|unable|not able|won['’]t)"
    r"|i (?:can(?:no|['’])t|cannot|won['’]t|will not|am unable to|must decline to|['’]m unable to) "
    r"(?:help|assist|comply|do|provide|continue|summari[sz]e|fulfill?|process|create|write|share|engage)"
    r"|as an ai\b"
    r"|(?:很?抱歉|对不起|不好意思)[^\n]{0,30}(?:无法|不能)|我(?:无法|不能)(?:协助|帮助|提供|总结|完成|满足)"
    r"|申し訳[^\n]{0,40}(?:できません|できかねます)|죄송[^\n]{0,40}(?:없습니다|어렵습니다)"
    r"|lo siento[^\n]{0,60}no puedo|(?:je suis )?désolée?[^\n]{0,60}ne (?:peux|puis)"
    r"|(?:es )?tut mir leid[^\n]{0,60}kann|(?:извините|к сожалению)[^\n]{0,60}не могу",
    re.I,
)
_UNFINISHED = frozenset(
    ["a", "an", "and", "because", "but", "for", "from", "in", "of", "or", "that", "the", "to", "with"]
)
_OPEN_ENDS = ",;:([{<—，、；：（"
_EMPTY_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])\Z")

_MOST_ODD = 0.02
_FEWEST_WORDS = 0.5
"""Least share of words: four fifths of recorded prose with code in it are letters, digits and spaces."""
_MOST_UNBROKEN = 0.3
_UNBROKEN_CHARS = 80
_REPEATS_FROM = 400
_MOST_REPETITIVE = 0.12
"""Compressed size over size. Prose has 0.35 and more, lists of paths 0.2, one sentence again and again 0.09."""
_TAIL = 1_000

_WINDOW, _WINDOWS, _FEWEST_WINDOWS = 40, 200, 5
_FOREIGN_FROM, _ABSENT_BELOW = 0.3, 8
_RULES_FROM, _LOST_BELOW = 0.6, 0.05


def without_thinking(text: str) -> str:
    """Return the text after a model's thinking; nothing if the thinking never ends."""
    at = 0
    while opened := _THINKING().match(text, at):
        closed = re.compile(f"</{opened.group(1)}>", re.I).search(text, opened.end())
        at = closed.end() if closed else len(text)
    text = text[at:]
    if "<think>" not in text and (end := text.find("</think>\n")) >= 0:  # templates that open it in the prompt
        text = text[end + len("</think>\n") :]
    return text.strip()


def without_wrapper(text: str) -> str:
    """Return the text without a code fence or a tag around the whole, or the end of one whose beginning is gone."""
    text = text.strip()
    if text.startswith("<summary>"):
        text = text.removeprefix("<summary>").strip()
    text = text.removesuffix("</summary>").strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        inner = text[text.index("\n") + 1 : -3]
        return inner.strip() if _fences(inner) % 2 == 0 else text
    if text.endswith("\n```") and _fences(text) % 2:
        return text[:-3].strip()
    return text


def _fences(text: str) -> int:
    return text.startswith("```") + text.count("\n```")


def tool_call(text: str) -> str:
    """Return the beginning of a tool call at the start of a line; a call quoted within a line only speaks about one."""
    if tag := _CALL_TAG().search(text):
        return tag.group().strip()[:40]
    for line in islice(_JSON_LINE.finditer(text), _LINES_LOOKED_AT):
        ahead = text[line.start() : line.start() + _LOOK_AHEAD]
        if _CALL_TYPE().search(ahead) or all(key.search(ahead) for key in _CALL_KEYS):
            return ahead.strip()[:40]
    return ""


def refusal(text: str) -> str:
    """Return the words with which the text declines, if it begins with any."""
    found = _REFUSAL().match(text.lstrip(" \t\r\n-*#>\"'"))
    return found.group()[:60] if found else ""


def noise(text: str) -> str:
    """Return an objection if the text is not readable prose."""
    chars = Counter(text)
    total = max(1, len(text))
    odd = sum(n for char, n in chars.items() if char in "\ufffd\u2400" or _unprintable(char)) / total
    if odd > _MOST_ODD:
        return f"{odd:.0%} of the answer's characters cannot be read."
    wordy = sum(n for char, n in chars.items() if char.isalnum() or char.isspace()) / total
    if wordy < _FEWEST_WORDS:
        return f"Only {wordy:.0%} of the answer are words."
    unbroken = sum(len(word) for word in text.split() if len(word) > _UNBROKEN_CHARS and _is_blob(word)) / total
    return f"{unbroken:.0%} of the answer is data without words." if unbroken > _MOST_UNBROKEN else ""


def _unprintable(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cn", "Co", "Cs") and char not in "\n\r\t"


def _is_blob(word: str) -> bool:
    """Return whether the word is encoded data. Paths and addresses are long too, and some scripts write without spaces."""
    return word.isascii() and word.count("/") * 40 < len(word) and "://" not in word


def repetition(text: str) -> str:
    """Return an objection if the text repeats itself, as a whole or at its end, where looping models do."""
    for part in (text, text[-_TAIL:]):
        data = part.encode("utf-8", "replace")
        if len(data) >= _REPEATS_FROM and (ratio := len(zlib.compress(data)) / len(data)) < _MOST_REPETITIVE:
            return f"The answer repeats itself (it compresses to {ratio:.0%})."
    return ""


def copied_share(text: str, source: str) -> float:
    """Return the share of evenly spaced windows of the text that the source holds verbatim."""
    text, source = (" ".join(side.casefold().split()) for side in (text, source))
    places = range(0, len(text) - _WINDOW + 1, max(_WINDOW // 2, len(text) // _WINDOWS))
    if len(places) < _FEWEST_WINDOWS:
        return 0.0
    return sum(text[at : at + _WINDOW] in source for at in places) / len(places)


def broken_end(text: str) -> str:
    """Return a sign that the text stops before its end."""
    if text.startswith(("{", "[")):
        try:
            msgspec.json.decode(text.encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            return "it is JSON that does not end"
        return ""
    if _fences(text) % 2:
        return "a code block is not closed"
    tail = text[max(text.rfind("\n{"), text.rfind("\n[")) :] if "\n{" in text or "\n[" in text else ""
    if tail.count("{") > tail.count("}") or tail.count("[") > tail.count("]"):
        return "it ends in JSON that is not closed"
    last = text[text.rfind("\n") + 1 :].strip()
    if last and last[-1] in _OPEN_ENDS:
        return f"it ends in {last[-1]!r}"
    if last.replace("```", "").count("`") % 2:
        return "a quotation is not closed in its last line"
    if _EMPTY_BULLET.match(last):
        return f"it ends in an empty item {last!r}"
    word = last[-40:].split()[-1:]
    return f"it ends in {word[0]!r}" if word and word[0].lower() in _UNFINISHED else ""


def foreign_script(text: str, source: str) -> str:
    """Name a writing system in the answer that the source never uses, or report that the source's main one is missing."""
    said, heard = _scripts(text), _scripts(source)
    letters, known = max(1, said.total()), heard.total()
    for script, number in said.items():
        if number / letters >= _FOREIGN_FROM and heard[script] < _ABSENT_BELOW <= known:
            return f"{number / letters:.0%} of the answer's letters are {script}; the conversation has none."
    for script, number in heard.items():
        if script != "LATIN" and number / known >= _RULES_FROM and said[script] / letters < _LOST_BELOW:
            return f"{number / known:.0%} of the conversation's letters are {script}; the answer has hardly any."
    return ""


def _scripts(text: str) -> Counter[str]:
    """Count the letters of each script, which is the first word of a letter's Unicode name."""
    found: Counter[str] = Counter()
    for char, number in Counter(text).items():
        if char.isalpha():
            found[unicodedata.name(char, "OTHER").split(" ", 1)[0].split("-", 1)[0]] += number
    return found
