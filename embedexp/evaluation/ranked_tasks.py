"""mteb tasks with queries and documents: retrieval in one language and across two, reranking."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from mteb.abstasks import AbsTaskRetrieval

from .tasks import ENGLISH, columns, digest, language, metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

K_VALUES = (1, 3, 5, 10, 100)
"""Ranks at which metrics are cut."""


class Retrieval(AbsTaskRetrieval):  # type: ignore[misc]
    """Find the documents that belong to each query; nDCG@10."""

    k_values = K_VALUES

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
        content = collect(pairs, queries, documents)
        self.metadata = metadata(name, "Retrieval", "ndcg_at_10", revision(content), [language])
        super().__init__()
        self.dataset = {"default": {"test": split(content)}}
        self.data_loaded = True


class CrossLingualRetrieval(AbsTaskRetrieval):  # type: ignore[misc]
    """Find the English document that says the same as a query in another language; nDCG@10."""

    k_values = K_VALUES

    def __init__(
        self,
        name: str,
        pairs: Mapping[str, Sequence[tuple[str, str]]],
        *,
        queries: int,
        documents: int,
    ) -> None:
        """From (text, English text) pairs by language code.

        Each language has `queries` queries and searches `documents` documents of its own pairs, so
        that no right answer that its pairs do not name is among them.
        """
        contents = {f"{code}-en": collect(rows, queries, documents) for code, rows in pairs.items()}
        self.metadata = metadata(
            name,
            "Retrieval",
            "ndcg_at_10",
            {subset: revision(content) for subset, content in contents.items()},
            {f"{code}-en": [language(code), ENGLISH] for code in pairs},
        )
        super().__init__()
        self.dataset = {subset: {"test": split(content)} for subset, content in contents.items()}
        self.data_loaded = True


class Reranking(AbsTaskRetrieval):  # type: ignore[misc]
    """Order the candidates of each query, the relevant ones first; mean average precision."""

    k_values = (*K_VALUES, 1000)  # mteb's reranking tasks are judged by map_at_1000

    def __init__(self, name: str, rows: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> None:
        """From (query, relevant documents, others): the candidates are all of them.

        Equal texts among a query's candidates are one, and relevant if any of them is. They are
        listed in the order of a hash of their text, so that ties help nobody.
        """
        queries, relevant, candidates = [], [], []
        for query, right, others in rows:
            documents = sorted({text.strip() for text in (*right, *others)}, key=digest)
            queries.append(query)
            relevant.append({text.strip() for text in right})
            candidates.append(documents)
        texts = dict.fromkeys(chain.from_iterable(candidates))
        corpus = {text: f"d{i}" for i, text in enumerate(texts)}
        names = [f"q{i}" for i in range(len(queries))]
        ranked = {
            name: [corpus[text] for text in listed]
            for name, listed in zip(names, candidates, strict=True)
        }
        judged = {
            name: {corpus[text]: 1 for text in sorted(right)}
            for name, right in zip(names, relevant, strict=True)
        }
        self.metadata = metadata(
            name, "Reranking", "map_at_1000", [queries, list(corpus), ranked, judged]
        )
        super().__init__()
        self.dataset = {
            "default": {
                "test": {
                    "queries": columns(id=names, text=queries),
                    "corpus": columns(id=list(corpus.values()), text=list(corpus)),
                    "relevant_docs": judged,
                    "top_ranked": ranked,
                }
            }
        }
        self.data_loaded = True


Content = tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]
"""Ids by query, ids by document, and what is relevant to each query's id."""


def collect(pairs: Sequence[tuple[str, str]], queries: int, documents: int) -> Content:
    """See `Retrieval`."""
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
    return query_ids, corpus, relevant


def revision(content: Content) -> list[Any]:
    """What the revision of a task is made of."""
    query_ids, corpus, relevant = content
    return [list(query_ids), list(corpus), relevant]


def split(content: Content) -> dict[str, Any]:
    """One subset's test split, as mteb holds it."""
    query_ids, corpus, relevant = content
    return {
        "queries": columns(id=list(query_ids.values()), text=list(query_ids)),
        "corpus": columns(id=list(corpus.values()), text=list(corpus)),
        "relevant_docs": relevant,
        "top_ranked": None,
    }
