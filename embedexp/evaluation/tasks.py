"""mteb tasks over data at hand: nothing is downloaded, and equal texts never compete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset, DatasetDict
from mteb import TaskMetadata
from mteb.abstasks import (
    AbsTaskBitextMining,
    AbsTaskClassification,
    AbsTaskClustering,
    AbsTaskRetrieval,
    AbsTaskSTS,
)
from sklearn.linear_model import LogisticRegression

ENGLISH = "eng-Latn"
UNKNOWN = "und-Zyyy"


def digest(*content: object) -> str:
    """SHA-256 of JSON values, as 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _metadata(
    name: str,
    kind: str,
    main_score: str,
    content: object,
    languages: Sequence[str] | Mapping[str, Sequence[str]] = (ENGLISH,),
) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description=name,
        type=kind,
        category="t2t",
        main_score=main_score,
        eval_langs=dict(languages) if isinstance(languages, Mapping) else list(languages),
        dataset={"path": f"embedexp/{name}", "revision": digest(content)},
    )


class Retrieval(AbsTaskRetrieval):  # type: ignore[misc]
    """Find the documents that belong to each query; nDCG@10."""

    k_values = (1, 3, 5, 10, 100)

    def __init__(
        self,
        name: str,
        pairs: Sequence[tuple[str, str]],
        *,
        queries: int,
        documents: int,
        language: str = ENGLISH,
    ) -> None:
        """From (query, document) pairs, of which a prefix is used.

        Equal queries become one with several relevant documents, equal documents one that is
        relevant to several queries. Pairs are taken until there are `queries` queries or
        `documents` documents; the remaining pairs' documents then fill up to `documents`.
        """
        relevant: dict[str, dict[str, int]] = {}
        corpus: dict[str, str] = {}  # stripped text, as mteb encodes it -> id
        query_ids: dict[str, str] = {}
        for query, document in pairs:
            text = document.strip()
            if len(corpus) >= documents and text not in corpus:
                continue
            document_id = corpus.setdefault(text, f"d{len(corpus)}")
            if query in query_ids or len(query_ids) < queries:
                query_id = query_ids.setdefault(query, f"q{len(query_ids)}")
                relevant.setdefault(query_id, {})[document_id] = 1
        self.metadata = _metadata(
            name, "Retrieval", "ndcg_at_10", [list(query_ids), list(corpus), relevant], [language]
        )
        super().__init__()
        self.dataset = {
            "default": {
                "test": {
                    "queries": _columns(id=list(query_ids.values()), text=list(query_ids)),
                    "corpus": _columns(id=list(corpus.values()), text=list(corpus)),
                    "relevant_docs": relevant,
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


class Similarity(AbsTaskSTS):  # type: ignore[misc]
    """Order pairs of texts by how alike they are; Spearman's correlation with the cosine."""

    min_score = 0
    max_score = 1

    def __init__(
        self, name: str, pairs: Sequence[tuple[str, str, float]], *, language: str = ENGLISH
    ) -> None:
        """From (text, text, score) triples."""
        first, second, scores = (list(column) for column in zip(*pairs, strict=True))
        self.metadata = _metadata(
            name, "STS", "cosine_spearman", [first, second, scores], [language]
        )
        super().__init__()
        self.dataset = {"test": _columns(sentence1=first, sentence2=second, score=scores)}
        self.data_loaded = True


class Classification(AbsTaskClassification):  # type: ignore[misc]
    """Tell a text's class by logistic regression on few examples of each; accuracy."""

    samples_per_label = 16
    n_experiments = 5

    def __init__(
        self, name: str, train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]
    ) -> None:
        """From (text, label) pairs to draw examples from, and others to classify."""
        names = sorted({label for _, label in (*train, *test)})
        index = {label: i for i, label in enumerate(names)}
        splits: dict[str, dict[str, list[Any]]] = {
            split: {
                "text": [text for text, _ in rows],
                "label": [index[label] for _, label in rows],
            }
            for split, rows in (("train", train), ("test", test))
        }
        self.evaluator_model = LogisticRegression(max_iter=1000)
        parameters = [self.samples_per_label, self.n_experiments]
        self.metadata = _metadata(name, "Classification", "accuracy", [names, splits, parameters])
        super().__init__()
        self.dataset = DatasetDict({split: _columns(**rows) for split, rows in splits.items()})
        self.data_loaded = True

    def _calculate_scores(self, y_test: Sequence[int], y_pred: Any) -> Any:
        # A column of datasets decodes every label anew at each of scikit-learn's many passes.
        return super()._calculate_scores(list(y_test), y_pred)


class Clustering(AbsTaskClustering):  # type: ignore[misc]
    """Group texts by k-means; V-measure, the mean over resampled sets of texts."""

    max_fraction_of_documents_to_embed = None

    def __init__(self, name: str, rows: Sequence[tuple[str, str]]) -> None:
        """From (text, label) pairs."""
        texts, labels = (list(column) for column in zip(*rows, strict=True))
        self.max_documents_per_cluster = len(texts)
        self.metadata = _metadata(name, "Clustering", "v_measure", [texts, labels, self.n_clusters])
        super().__init__()
        self.dataset = {"test": _columns(sentences=texts, labels=labels)}
        self.data_loaded = True


class Bitext(AbsTaskBitextMining):  # type: ignore[misc]
    """Find each text's translation; F1, per language."""

    def __init__(self, name: str, pairs: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        """From (text, English text) pairs by language code."""
        subsets = {f"{code}-en": rows for code, rows in pairs.items()}
        self.metadata = _metadata(
            name,
            "BitextMining",
            "f1",
            subsets,
            {f"{code}-en": [language(code), ENGLISH] for code in pairs},
        )
        super().__init__()
        self.dataset = {
            subset: {
                "test": _columns(
                    sentence1=[text for text, _ in rows], sentence2=[text for _, text in rows]
                )
            }
            for subset, rows in subsets.items()
        }
        self.data_loaded = True


def _columns(**columns: list[Any]) -> Dataset:
    return Dataset.from_dict(columns)


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
