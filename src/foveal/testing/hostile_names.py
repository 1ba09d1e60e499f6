"""Names that somebody might give a file, a session or a skill to get somewhere else; the same ones for the same seed."""

import random

PIECES = (
    *("..", ".", "/", "\\", "//", "...", "../", "..\\", "%2e%2e%2f", "..%2f", "~", "~root", "-rf", "$HOME", "`id`"),
    *("\0", "\n", "\r", "\t", "\x1b[2J", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028"),
    *("\ud800", "\udfff", "\udc80", "é", "é", "K", "ｆ", "😀", "中文", "\U000e0041", "a" * 255, "b" * 4096),
    *("CON", "PRN", "AUX", "NUL", "COM1", "LPT9", "con.txt", "nul.", "aux .png", "C:", "C:\\", "\\\\host\\share\\"),
    *("/etc/passwd", "/proc/self/fd/0", "/dev/null", "/dev/stdin", "session.json", ".meta", "uploads", ".part"),
    *("a", "report", ".pdf", ".png", ".tar.gz", ".docx", " ", "  .", ". ", ".", ":", "*", "?", "<", ">", "|", '"', "'"),
)
FIXED = ("", " ", ".", "..", "/", "\0", "\n", "../../outside/x", "/outside/x", "..\\..\\x", "x/../../../y", *PIECES)


def hostile_names(how_many: int = 2_000, seed: int = 5) -> list[str]:
    """Return so many names: those that are always tried, and random ones of their pieces."""
    chosen = random.Random(seed)  # noqa: S311 - not for keys
    made = ("".join(chosen.choices(PIECES, k=chosen.randint(1, 6))) for _ in range(how_many))
    return [*FIXED, *made][:how_many]
