"""Families and resource classes of languages, and means over them."""

from __future__ import annotations

import pytest
from mteb.languages.iso_mappings import ISO_TO_FAM_LEVEL0

from embedexp.evaluation.languages import (
    OTHER,
    RESOURCE_CLASSES,
    breakdown,
    by_language,
    family,
    resource_class,
)
from embedexp.evaluation.scores import Score
from embedexp.evaluation.tasks import LANGUAGES


def score(task: str, subsets: dict[str, float], languages: dict[str, list[str]]) -> Score:
    value = sum(subsets.values()) / len(subsets) if subsets else 0.5
    return Score(task, "BitextMining", "f1", value, 1.0, "x", subsets, languages)


def test_families_are_mtebs() -> None:
    for code in ("deu", "tur", "jpn", "swh", "arb"):
        assert family(code) == ISO_TO_FAM_LEVEL0[code]
    assert family("zho-Hans") == ISO_TO_FAM_LEVEL0["cmn"] == "Sino-Tibetan"
    assert family("xxx") == OTHER


@pytest.mark.parametrize(
    ("code", "expected"),
    # Joshi et al. 2020, table 1 and its list: English 5, Hindi 4, Ukrainian 3, Yoruba 2, Telugu 1.
    [("eng", "5"), ("ara-Arab", "5"), ("hin", "4"), ("ukr", "3"), ("yor", "2"), ("tel", "1")],
)
def test_resource_classes_are_those_of_joshi_et_al(code: str, expected: str) -> None:
    assert resource_class(code) == expected


def test_no_language_is_in_two_classes_and_the_built_in_ones_are_all_known() -> None:
    codes = [code for listed in RESOURCE_CLASSES.values() for code in listed.split()]
    assert len(codes) == len(set(codes))
    # The sizes of the paper's three richest classes: 7, 18 and 28 languages.
    assert [len(RESOURCE_CLASSES[number].split()) for number in (5, 4, 3)] == [7, 18, 28]
    for code in LANGUAGES.values():
        assert OTHER not in (resource_class(code), family(code)), code


def test_a_pair_with_english_counts_for_the_other_language() -> None:
    scores = [
        score(
            "T",
            {"de-en": 0.5, "fr-de": 0.7},
            {"de-en": ["deu-Latn", "eng-Latn"], "fr-de": ["fra-Latn", "deu-Latn"]},
        ),
        score("E", {}, {"default": ["eng-Latn"]}),
        score("U", {}, {"default": ["und-Zyyy"]}),
    ]
    assert by_language(scores) == {
        "deu": {"T/de-en": 0.5, "T/fr-de": 0.7},
        "fra": {"T/fr-de": 0.7},
        "eng": {"E/default": 0.5},
    }


def test_a_language_of_several_codes_is_one() -> None:
    scores = [
        score("A", {}, {"default": ["ara-Arab"]}),
        score("B", {"ar": 0.1, "sw": 0.3}, {"ar": ["arb-Arab"], "sw": ["swa-Latn"]}),
    ]
    assert by_language(scores) == {"arb": {"A/default": 0.5, "B/ar": 0.1}, "swh": {"B/sw": 0.3}}
    assert breakdown(scores)["family"]["Afro-Asiatic"] == (pytest.approx(0.3), 1)


def test_each_language_weighs_the_same_in_its_group() -> None:
    scores = [
        score(
            "A",
            {"de": 0.2, "fr": 0.6, "ja": 0.9},
            {"de": ["deu-Latn"], "fr": ["fra-Latn"], "ja": ["jpn-Jpan"]},
        ),
        score("B", {"test/de": 0.4}, {"de": ["deu-Latn"]}),
    ]
    found = breakdown(scores)
    assert found["family"]["Indo-European"] == pytest.approx(((0.3 + 0.6) / 2, 2))
    assert found["family"]["Japonic"] == (0.9, 1)
    assert found["resource class"] == {"5": (pytest.approx((0.3 + 0.6 + 0.9) / 3), 3)}
