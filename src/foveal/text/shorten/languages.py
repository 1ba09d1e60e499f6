"""Languages that `source` can outline: lines that open a definition, by file extension.

All patterns are tried at the beginning of a line only, behind an optional line number, and every repetition in them is
bounded, so that the cost of a line does not depend on its length.
"""

import re
from functools import cache

from foveal.text.lazy_pattern import lazy_pattern

NUMBERED = lazy_pattern(r"\A[ \t]{0,10}\d{1,7}(?:→|\t|[:|│]| (?=\s|\S))")
"""`   12→`, `12:`, `12\\t`, `12 `: line numbers as reading tools print them."""

_PREFIX = r"^(?:[ \t]{0,10}\d{1,7}(?:→|\t|[:|│]|(?=[ ])))?(?P<indent>[ \t]{0,80})"
_JVM_WORDS = (
    "public|private|protected|internal|static|final|abstract|sealed|override|open|suspend|data|async|virtual|partial"
    "|default|synchronized|inline|readonly|const|native|strictfp|required|lateinit|companion|annotation|inner|value"
)
_NOT_CALLS = r"(?!(?:if|for|while|switch|catch|return|else|do|try|with|await|throw|new|function)\b)"

_DEFINITIONS = {
    "python": r"(?:async[ ]+)?def[ ]+\w|class[ ]+\w|[A-Z_][A-Z0-9_]{2,60}[ ]?(?::[^=\n]{0,60})?=[^=]",
    "script": (
        r"(?:export[ ]+)?(?:default[ ]+)?(?:declare[ ]+)?(?:abstract[ ]+)?(?:async[ ]+)?"
        r"(?:function\b|class[ ]+\w|interface[ ]+\w|type[ ]+\w|enum[ ]+\w|namespace[ ]+\w)"
        r"|export[ ]+(?:const|let|var|default)\b"
        r"|(?:const|let|var)[ ]+[\w$]{1,60}[^=\n]{0,80}=[ ]?(?:async[ ]?)?(?:\(|function\b|[\w$]{1,40}[ ]?=>|\w{0,20}memo\()"
        r"|(?:describe|it|test)(?:\.\w{1,12})?\("
        r"|(?:(?:public|private|protected|static|async|get|set|readonly|override)[ ]+){0,4}"
        + _NOT_CALLS
        + r"[\w$#]{2,60}"
        r"(?:<[^>\n]{0,60}>)?\([^;\n]{0,200}\{[ ]*$"
    ),
    "go": r"func\b|type[ ]+\w|(?:var|const)[ ]+\w|package[ ]+\w|t\.Run\(",
    "rust": (
        r"(?:pub(?:\([^)\n]{0,40}\))?[ ]+)?(?:(?:default|const|async|unsafe|extern(?:[ ]+\"\w{0,20}\")?)[ ]+){0,4}"
        r"(?:fn|struct|enum|trait|impl|mod|type|union|static|const)\b|macro_rules!"
    ),
    "jvm": (
        rf"(?:(?:{_JVM_WORDS})[ ]+){{0,6}}(?:class|interface|enum|record|object|struct|fun|namespace|package)[ ]+\w"
        rf"|(?:(?:{_JVM_WORDS})[ ]+){{1,6}}[\w<>\[\],.?:]{{1,80}}[ (]"
        r"|@(?:Test|Bean|\w{0,12}Mapping|Path|Override)\b"
    ),
    "c": (
        r"(?:struct|class|enum|union|typedef|namespace|template|static|inline|extern|constexpr|virtual)\b[^\n]{0,200}"
        r"|#[ ]?define[ ]+\w|(?<=\n)" + _NOT_CALLS + r"[A-Za-z_][\w:<>,*& ]{1,100}\([^;\n]{0,200}$"
    ),
    "ruby": r"(?:def|class|module)[ ]+\S|(?:attr_\w{2,10}|scope|has_many|belongs_to|describe|context|it)\b[ ]",
    "php": (
        r"(?:(?:public|private|protected|static|final|abstract|readonly)[ ]+){0,4}"
        r"(?:function|class|interface|trait|enum|namespace|const)[ ]+\S"
    ),
    "shell": r"(?:function[ ]+[\w:.-]|[\w:.-]{1,60}[ ]?\(\)[ ]?\{?)",
    "other": (
        r"(?:export[ ]+|pub(?:\(\w{1,10}\))?[ ]+|public[ ]+|private[ ]+|protected[ ]+|static[ ]+|async[ ]+|abstract[ ]+){0,4}"
        r"(?:def|class|func|fn|function|interface|struct|enum|trait|impl|type|module|object|record|fun|sub|proc)[ ]+\w"
        r"|(?:const|let|var)[ ]+[\w$]{1,60}[^=\n]{0,80}=[ ]?(?:async[ ]?)?(?:\(|function\b)"
    ),
}


@cache
def definition_patterns() -> dict[str, re.Pattern[str]]:
    """Return the pattern of lines that open a definition, by language."""
    return {name: re.compile(_PREFIX + f"(?:{body})", re.MULTILINE) for name, body in _DEFINITIONS.items()}


LANGUAGES = {
    extension: language
    for language, known in {
        "python": "py pyi pyx",
        "script": "js jsx ts tsx mjs cjs mts cts vue svelte",
        "go": "go",
        "rust": "rs",
        "jvm": "java kt kts cs scala groovy swift dart",
        "c": "c h cc cpp cxx hpp hh m mm",
        "ruby": "rb rake",
        "php": "php",
        "shell": "sh bash zsh",
        "other": "lua pl pm ex exs jl r hs ml clj nim zig sol css scss less sql proto graphql tf",
    }.items()
    for extension in known.split()
}

IMPORT = lazy_pattern(
    r"[ \t]{0,8}(?:import\b|from[ ]+\S{1,200}[ ]+import\b|export[ ]+(?:\*|\{)|#[ ]?include\b|use[ ]+\S|using[ ]+\S"
    r"|require\b|require_relative\b|(?:const|var|let)[ ]+[^=\n]{1,80}=[ ]?require\(|(?:[\w.]{1,20}[ ])?\"[\w./@-]{2,120}\"$)"
)

CODE_LINE = lazy_pattern(
    r"[ \t]{0,80}(?:[)}\]]{1,4}[;,]?$|(?:if|for|while|return|else|elif|switch|case|try|catch|def|class|func|fn|let|const|var"
    r"|import|from|package|public|private|protected|static|struct|type|interface|use|pub|impl|export|async|await|end|#include"
    r"|#define|raise|throw|break|continue|self\.|this\.|assert|with|yield|defer|go|mut|match)\b"
    r"|//|/\*|[ ]\*[ /]|@\w|[\w.$]{1,60}[ ]?(?::=|\+?=|\()|[^\n]{1,300}(?:[{;]|\):|=>|->|\($|,$))"
)
