"""What is written and shown carries no secret and can't drive a terminal."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

import pytest

from embedexp.runs.text import duration, markup, plain, redact

if TYPE_CHECKING:
    from embedexp.runs import RunDirectory


def test_records_and_warnings_reach_the_log_without_secrets(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-token")
    with run.recording(), warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.getLogger("somewhere").info("using very-secret-token")
        logging.captureWarnings(True)
        warnings.warn("mind the gap", stacklevel=1)
    logging.getLogger("somewhere").warning("after the run")
    text = run.log_file.read_text()
    assert "using ***" in text
    assert "mind the gap" in text
    assert "after the run" not in text


def test_log_is_appended_by_the_next_session(run: RunDirectory) -> None:
    for session in ("first", "second"):
        with run.recording():
            logging.getLogger("x").info(session)
    text = run.log_file.read_text()
    assert text.index("first") < text.index("second")


@pytest.mark.parametrize(
    "secret",
    ["hf_abcdefghijklmnopqrst", "sk-abcdefghijklmnopqrst", "ghp_abcdefghijklmnopqrst"],
)
def test_keys_are_known_by_their_shape(secret: str) -> None:
    assert secret not in redact(f"header {secret} end")


def test_password_in_an_address_is_removed() -> None:
    assert redact("https://me:hunter2@example.org/x") == "https://***@example.org/x"


def test_escape_sequences_and_direction_overrides_are_removed() -> None:
    assert plain("\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07\u202eevil\ttab\n") == "red evil\ttab\n"


def test_markup_is_taken_literally() -> None:
    from rich.text import Text

    assert Text.from_markup(markup("[bold]x[/bold]")).plain == "[bold]x[/bold]"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "-"), (0.4, "0s"), (59.6, "1m 00s"), (200, "3m 20s"), (7500, "2h 05m")],
)
def test_duration_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
