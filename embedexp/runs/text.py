"""Text that is safe to show in a terminal and to keep in a file."""

from __future__ import annotations

import os
import re

# Escape sequences, control characters but tab and newline, and characters that turn text around.
_UNSAFE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.I)
_SECRET_VALUE = re.compile(
    r"\b(?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|xox[abp]-)[A-Za-z0-9_-]{16,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_SHORTEST_SECRET = 8


def plain(text: str) -> str:
    """`text` without escape sequences, control characters and direction overrides."""
    return _UNSAFE.sub("", text)


def markup(text: object) -> str:
    """`text` made safe for rich: plain, and with its square brackets taken literally."""
    from rich.markup import escape

    return escape(plain(str(text)))


def redact(text: str) -> str:
    """`text` without the values of secret environment variables and anything shaped like a key."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and value in text and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return _SECRET_VALUE.sub("***", text)


def duration(seconds: float | None) -> str:
    """Seconds in words of at most two units ("45s", "3m 20s", "2h 05m"), or a dash for None."""
    if seconds is None:
        return "-"
    whole = round(max(0.0, seconds))
    minutes, rest = divmod(whole, 60)
    if minutes == 0:
        return f"{rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {rest:02d}s"
