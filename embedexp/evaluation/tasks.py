"""mteb tasks over data at hand: nothing is downloaded, and equal texts never compete.

Here are the tasks over pairs, and what all kinds share; `ranked_tasks` has those with queries and
documents, `label_tasks` those with labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from mteb import TaskMetadata
from mteb.abstasks import AbsTaskBitextMining, AbsTaskSTS

ENGLISH = "eng-Latn"
UNKNOWN = "und-Zyyy"


def digest(*content: object) -> str:
    """SHA-256 of JSON values, as 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def metadata(
    name: str,
    kind: str,
    main_score: str,
    content: object,
    languages: Sequence[str] | Mapping[str, Sequence[str]] = (ENGLISH,),
) -> TaskMetadata:
    """What mteb knows of a task: its type and metric by mteb's names, languages by ISO codes.

    Its revision is a hash of its content, so that a changed task is another task.
    """
    return TaskMetadata(
        name=name,
        description=name,
        type=kind,
        category="t2t",
        main_score=main_score,
        eval_langs=dict(languages) if isinstance(languages, Mapping) else list(languages),
        dataset={"path": f"embedexp/{name}", "revision": digest(content)},
    )


class Similarity(AbsTaskSTS):  # type: ignore[misc]
    """Order pairs of texts by how alike they are; Spearman's correlation with the cosine."""

    min_score = 0
    max_score = 1

    def __init__(
        self, name: str, pairs: Sequence[tuple[str, str, float]], *, language: str = ENGLISH
    ) -> None:
        """From (text, text, score) triples."""
        first, second, scores = (list(column) for column in zip(*pairs, strict=True))
        self.metadata = metadata(
            name, "STS", "cosine_spearman", [first, second, scores], [language]
        )
        super().__init__()
        self.dataset = {"test": columns(sentence1=first, sentence2=second, score=scores)}
        self.data_loaded = True


class Bitext(AbsTaskBitextMining):  # type: ignore[misc]
    """Find each text's translation; F1, per language."""

    def __init__(self, name: str, pairs: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        """From (text, English text) pairs by language code."""
        subsets = {f"{code}-en": rows for code, rows in pairs.items()}
        self.metadata = metadata(
            name,
            "BitextMining",
            "f1",
            subsets,
            {f"{code}-en": [language(code), ENGLISH] for code in pairs},
        )
        super().__init__()
        self.dataset = {
            subset: {
                "test": columns(
                    sentence1=[text for text, _ in rows], sentence2=[text for _, text in rows]
                )
            }
            for subset, rows in subsets.items()
        }
        self.data_loaded = True


def columns(**values: list[Any]) -> Dataset:
    """A table of columns of equal length."""
    return Dataset.from_dict(values)


LANGUAGES = {
    "ar": "ara-Arab",
    "bg": "bul-Cyrl",
    "cs": "ces-Latn",
    "de": "deu-Latn",
    "el": "ell-Grek",
    "es": "spa-Latn",
    "fa": "fas-Arab",
    "fr": "fra-Latn",
    "he": "heb-Hebr",
    "hi": "hin-Deva",
    "id": "ind-Latn",
    "it": "ita-Latn",
    "ja": "jpn-Jpan",
    "ko": "kor-Kore",
    "nl": "nld-Latn",
    "pl": "pol-Latn",
    "pt": "por-Latn",
    "ru": "rus-Cyrl",
    "sv": "swe-Latn",
    "tr": "tur-Latn",
    "uk": "ukr-Cyrl",
    "vi": "vie-Latn",
    "zh": "zho-Hans",
}


def language(code: str) -> str:
    """The language-script code of a two-letter code, or of one with a region (pt_BR)."""
    return LANGUAGES.get(code.replace("-", "_").split("_")[0], UNKNOWN)
