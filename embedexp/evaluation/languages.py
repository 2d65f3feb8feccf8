"""Scores by language family and by how much data a language has.

Families are the top level of Glottolog's classification, as mteb ships it (`language_family.json`).
Resource classes are those of Joshi et al. 2020 ("The State and Fate of Linguistic Diversity and
Inclusion in the NLP World", ACL 2020): 0, nothing, to 5, most. Their list is by name; here are its
classes 2 to 5 whole, and of 0 and 1 the languages that the usual benchmarks have.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .scores import Score

ENGLISH = "eng"
OTHER = "unclassified"

MEMBERS = {
    "ara": "arb",
    "aze": "azj",
    "est": "ekk",
    "fas": "pes",
    "lav": "lvs",
    "mlg": "plt",
    "mon": "khk",
    "msa": "zsm",
    "nep": "npi",
    "nob": "nor",
    "ori": "ory",
    "sqi": "als",
    "swa": "swh",
    "tgl": "fil",
    "uzb": "uzn",
    "zho": "cmn",
}
"""The language that stands for a macrolanguage, or for another code of it (ISO 639-3)."""

RESOURCE_CLASSES: dict[int, str] = {
    5: "eng spa deu jpn fra arb cmn",
    4: "swe tur kor hin pes por ces rus nld pol hrv ita vie eus hun fin srp cat",
    3: (
        "ukr ceb arz lvs ind afr bos glg ell heb bel zsm tha kat dan fil slv tam kaz ron bul uzn "
        "lit ekk slk ben urd lat"
    ),
    2: "pan pnb hau mar xho swh san zul tsn isl wol hat mlt kok tir lao amh yor gle",
    1: "asm guj hye ibo jav kan khm khk kin kir mal mkd mya nor npi som tel uig als azj",
}
"""Languages of each class, by ISO 639-3."""


@cache
def _families() -> dict[str, str]:
    """Family by ISO 639-3 code; found without importing mteb, which takes seconds."""
    spec = find_spec("mteb")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    content = json.loads((folder / "languages" / "language_family.json").read_text("utf-8"))
    return {code: levels["level0"] for code, levels in content.items()}


@cache
def _classes() -> dict[str, int]:
    return {code: number for number, codes in RESOURCE_CLASSES.items() for code in codes.split()}


def family(code: str) -> str:
    """The top-level family of a language (ISO 639-3, with a script or without)."""
    language, known = code.partition("-")[0], _families()
    wider = [whole for whole, member in MEMBERS.items() if member == language]
    names = [language, MEMBERS.get(language, language), *wider]
    return next((known[name] for name in names if name in known), OTHER)


def resource_class(code: str) -> str:
    """The resource class of a language, "0" to "5", or "unclassified" where it is not listed."""
    language = code.partition("-")[0]
    found = _classes().get(MEMBERS.get(language, language))
    return OTHER if found is None else str(found)


def by_language(scores: Iterable[Score]) -> dict[str, dict[str, float]]:
    """Values by language and task: `{language: {task/subset: value}}`, languages by ISO 639-3.

    A language that tasks name by several codes (`ara` and `arb`) is one. A subset of two languages
    counts for the one that is not English; between two others, for both.
    """
    found: dict[str, dict[str, float]] = {}
    for score in scores:
        subsets = score.subsets or {"default": score.value}
        for subset, value in subsets.items():
            codes = score.languages.get(subset) or score.languages.get(subset.partition("/")[2], ())
            named = (code.partition("-")[0] for code in codes)
            languages = {MEMBERS.get(code, code) for code in named} - {"und"}
            for language in sorted(languages - {ENGLISH} or languages):
                found.setdefault(language, {})[f"{score.task}/{subset}"] = value
    return found


def breakdown(scores: Iterable[Score]) -> dict[str, dict[str, tuple[float, int]]]:
    """Means by `family` and `resource class`: the value and the number of languages behind it.

    A language's value is the mean over its tasks, a group's the mean over its languages: a family
    with many languages in one task weighs no more for it.
    """
    values = {
        language: sum(own.values()) / len(own) for language, own in by_language(scores).items()
    }
    return {
        "family": _grouped(values, {language: family(language) for language in values}),
        "resource class": _grouped(
            values, {language: resource_class(language) for language in values}
        ),
    }


def _grouped(
    values: Mapping[str, float], groups: Mapping[str, str]
) -> dict[str, tuple[float, int]]:
    members: dict[str, list[float]] = {}
    for language, value in values.items():
        members.setdefault(groups[language], []).append(value)
    return {name: (sum(found) / len(found), len(found)) for name, found in sorted(members.items())}
