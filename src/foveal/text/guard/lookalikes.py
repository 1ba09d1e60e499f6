"""Characters that look like others, one for one.

Unicode's own compatibility forms (full width, mathematical, circled, accented letters) are found by decomposition in
`normalise`. This table holds the characters that decomposition does not know: letters of other alphabets and brackets that
look like ours. They are written by their numbers: a reader could not tell them from the others either.
"""

from typing import Final

_ALIKE: Final[dict[str, str]] = {
    "<": (
        "\u02c2\u02f1\u2039\u00ab\u3008\u27e8\u276c\u276e\u2770\u27ea\u29fc\u2991\u2993\u27ec\u3008\u300a"
        "\u226a\u227a\u22d6\u2aa1\u1438\u16b2\U0001d236\ufe3f\ufe3d\u204c\u2abb\u2af7\u22d8\u22b0\u2e02"
        "\u2e04"
    ),
    ">": (
        "\u02c3\u203a\u00bb\u3009\u27e9\u276d\u276f\u2771\u27eb\u29fd\u2992\u27ed\u3009\u300b\u226b\u227b"
        "\u22d7\u2aa2\u1433\U0001d237\ufe40\ufe3e"
    ),
    "[": (
        "\u3010\u3014\u27e6\u2045\u301a\u298b\u298d\u298f\u2772\u27ee\ufe5d\ufe39\ufe3b\ufe47\u2308\u230a"
        "\u300c\u300e\u3016"
    ),
    "]": (
        "\u3011\u3015\u27e7\u2046\u301b\u298c\u298e\u2990\u2773\u27ef\ufe5e\ufe3a\ufe3c\ufe48\u2309\u230b"
        "\u300d\u300f\u3017"
    ),
    "|": "\u01c0\u2223\u23d0\u2502\u2503\u2758\u2759\u275a\u00a6\u07ca\ufe31\u239c",
    ":": "\u02d0\u02f8\u0589\u05c3\u0703\u0704\u2236\ua789\u1361\u205a\u0903\u22ee\ufe13",
    "/": "\u2044\u2215\u2571\u27cb\u29f8\u3033\u2f03\u2cc6",
    ";": "\u204f\u061b",
    "_": "\u2581\u02cd\u2017",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u02d7\u2043\u2796",
    "a": "\u0430\u0251\u03b1\u1d00\u2c81",
    "b": "\u042c\u0184\u0299\u13cf",
    "c": "\u0441\u03f2\u1d04\u2ca5",
    "d": "\u0501\u0257\u1d05\u13e7\u0111",
    "e": "\u0435\u04bd\u0454\u03b5\u1d07\u212e\u025b",
    "f": "\u0192\ua730\u1e9d\u0584\uab35\u03dd",
    "g": "\u0261\u0581\u0262\u1d83",
    "h": "\u04bb\u0570\u029c\u2c68",
    "i": "\u0456\u0131\u0269\u026a\u03b9\u04cf\u13a5\u2373\u13a5",
    "j": "\u0458\u03f3\u1d0a",
    "k": "\u043a\u03ba\u1d0b\u2c95",
    "l": "\u029f\u0142\u217c\u0196\u2cd1\ua4e1\u019a",
    "m": "\u043c\u1d0d\u0271",
    "n": "\u0578\u057c\u0274\u03b7\u043f",
    "o": "\u043e\u03bf\u0585\u1d0f\u03c3\u1040\u2c9f\u04e9\u00f8",
    "p": "\u0440\u03c1\u1d18\u03f1\u2ca3",
    "q": "\u051b\u0563\u0566",
    "r": "\u0433\u0280\u1d26\u2c85\uab47",
    "s": "\u0455\ua731\u01bd\ua645",
    "t": "\u0442\u03c4\u1d1b\u0167",
    "u": "\u03c5\u057d\u1d1c\u028b",
    "v": "\u0475\u03bd\u1d20\u2c71",
    "w": "\u051d\u0461\u1d21\u026f\u0561",
    "x": "\u0445\u03c7\u2cad",
    "y": "\u0443\u03b3\u028f\u04af\u10e7",
    "z": "\u1d22\u0290",
    "A": "\u0410\u0391\u13aa\ua4ee",
    "B": "\u0412\u0392\u13f4\ua4d0",
    "C": "\u0421\u03f9\u13df\ua4da",
    "D": "\u13a0\ua4d3\u0110",
    "E": "\u0415\u0395\u13ac\ua4f0",
    "F": "\u03dc\ua4dd",
    "G": "\u050c\ua4d6",
    "H": "\u041d\u0397\u13bb\ua4e7",
    "I": "\u0406\u0399\u04c0\ua4f2",
    "K": "\u041a\u039a\u13e6\ua4d7",
    "L": "\u13de\u0141",
    "M": "\u041c\u039c\u13b7\ua4df",
    "N": "\u039d\ua4e0",
    "O": "\u041e\u039f\u0555\ua4f3\u00d8",
    "P": "\u0420\u03a1\u13e2\ua4d1",
    "R": "\u13a1\ua4e3",
    "S": "\u0405\u054f\u13da\ua4e2",
    "T": "\u0422\u03a4\u13a2\ua4d4",
    "U": "\u054d\ua4f4",
    "V": "\u0474\ua4e6",
    "X": "\u0425\u03a7\ua4eb",
    "Y": "\u0423\u03a5\u04ae\ua4ec",
}

LOOKALIKES: Final[dict[str, str]] = {char: plain for plain, chars in _ALIKE.items() for char in chars}
