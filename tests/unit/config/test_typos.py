"""A misspelt override is answered with the right spelling, whatever is misspelt."""

from __future__ import annotations

import pytest

from embedexp.config import UserError, compose
from embedexp.config.lint import surely_unknown
from embedexp.config.locations import search_folders

from .typos import spots, typos

TYPOS = typos(200, seed=7)


def test_the_typos_cover_every_kind_of_name() -> None:
    words = {spot.word for spot, _ in TYPOS}
    assert len(TYPOS) == 200
    assert len(words) > 60
    assert any(spot.after.startswith("=") and "." in spot.before for spot, _ in TYPOS)
    assert any(spot.before.endswith("=[") for spot, _ in TYPOS)
    assert any(spot.after.startswith(".") for spot, _ in TYPOS)


@pytest.mark.parametrize("part", range(10))
def test_every_typo_gets_the_right_suggestion(part: int) -> None:
    for spot, overrides in TYPOS[part::10]:
        with pytest.raises(UserError) as caught:
            compose(overrides)
        lines = str(caught.value).splitlines()
        assert len(lines) <= 3, overrides
        is_value = "=" in spot.before
        right = spot.word if is_value else f"{spot.before}{spot.word}{spot.after}"
        suggestion = lines[-1].partition("?")[0]
        assert right in suggestion, (overrides, lines)
        assert "did you mean" in lines[-1], (overrides, lines)


@pytest.mark.parametrize("prefix", ["", "+", "++", "~"])
def test_a_misspelt_key_is_found_behind_every_prefix(prefix: str) -> None:
    override = f"{prefix}loss.temprature" + ("" if prefix == "~" else "=0.1")
    with pytest.raises(UserError) as caught:
        compose([override])
    assert "did you mean loss.temperature" in str(caught.value)


def test_no_valid_key_is_called_a_typo() -> None:
    folders = search_folders()
    for spot in spots():
        override = f"{spot.before}{spot.word}{spot.after}"
        assert not surely_unknown(override, folders), override
