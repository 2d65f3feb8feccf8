"""Public tasks that need no network: registered with mteb under names of their own."""

from __future__ import annotations

from typing import Any, ClassVar

from datasets import Dataset
from mteb import TaskMetadata
from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval, AbsTaskSTS
from mteb.abstasks.aggregate_task_metadata import AggregateTaskMetadata
from mteb.abstasks.aggregated_task import AbsTaskAggregate

from embedexp.config.schema.evaluation import MtebEvaluation

WORDS = ["cat", "dog", "horse", "cow", "saw", "axe", "file", "vice", "lion", "bear"]


def metadata(name: str, kind: str, metric: str, languages: Any, splits: list[str]) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description=name,
        type=kind,
        category="t2t",
        modalities=["text"],
        main_score=metric,
        eval_langs=languages,
        eval_splits=splits,
        domains=["Web"],
        dataset={"path": f"nobody/{name}", "revision": "1"},
    )


class Pairs(AbsTaskSTS):
    """Similarity in two languages and two splits, of unequal sizes."""

    metadata = metadata(
        "PublicSTS",
        "STS",
        "cosine_spearman",
        {"en": ["eng-Latn"], "de-en": ["deu-Latn", "eng-Latn"]},
        ["validation", "test"],
    )
    loads: ClassVar[list[str]] = []
    min_score, max_score = 0, 1

    def load_data(self, **_: Any) -> None:
        Pairs.loads.append(self.metadata.name)
        self.dataset = {
            subset: {
                split: Dataset.from_dict(
                    {
                        "sentence1": [f"{a} {shift}" for a in WORDS],
                        "sentence2": [WORDS[(i * shift) % 10] for i in range(10)],
                        "score": [((i * 7 + shift) % 10) / 10 for i in range(10)],
                    }
                )
                for split, shift in (("validation", 1 + len(subset)), ("test", 2 + len(subset)))
            }
            for subset in self.hf_subsets
        }
        self.data_loaded = True


class Search(AbsTaskRetrieval):
    """Retrieval over a corpus of ten documents."""

    metadata = metadata("PublicSearch", "Retrieval", "ndcg_at_10", ["eng-Latn"], ["test"])

    def load_data(self, **_: Any) -> None:
        self.dataset = {
            "default": {
                "test": {
                    "queries": Dataset.from_dict(
                        {"id": [f"q{i}" for i in range(10)], "text": [f"{w} 1" for w in WORDS]}
                    ),
                    "corpus": Dataset.from_dict(
                        {
                            "id": [f"d{i}" for i in range(10)],
                            "title": [""] * 10,
                            "text": [f"the {w} and {WORDS[i - 1]}" for i, w in enumerate(WORDS)],
                        }
                    ),
                    "relevant_docs": {f"q{i}": {f"d{i}": 1} for i in range(10)},
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


class Unreachable(AbsTaskClassification):
    """A task whose data is nowhere."""

    metadata = metadata("PublicGone", "Classification", "accuracy", ["eng-Latn"], ["test"])
    reachable: ClassVar[bool] = False

    def load_data(self, **_: Any) -> None:
        if not Unreachable.reachable:
            raise ConnectionError("the hub does not answer\nsecond line")
        rows = [f"{word} {i}" for i in range(20) for word in WORDS]
        labels = [int(WORDS.index(text.split()[0]) > 4) for text in rows]
        data = Dataset.from_dict({"text": rows, "label": labels})
        self.dataset = {"train": data, "test": data}
        self.data_loaded = True


class Search2(Search):
    """The same under another name."""

    metadata = metadata("PublicSearch2", "Retrieval", "ndcg_at_10", ["eng-Latn"], ["test"])


class Both(AbsTaskAggregate):
    """A task that is made of two others."""

    metadata = AggregateTaskMetadata(
        name="PublicBoth",
        description="PublicBoth",
        tasks=[Search(), Search2()],
        main_score="ndcg_at_10",
        type="Retrieval",
        eval_splits=["test"],
    )


TASKS = {cls.metadata.name: cls for cls in (Pairs, Unreachable, Search)}


def option(**changed: Any) -> MtebEvaluation:
    """evaluation=mteb over the tasks above."""
    values: dict[str, Any] = {
        "name": "mteb",
        "benchmarks": [],
        "tasks": list(TASKS),
        "types": [],
        "languages": [],
        "exclude": [],
        "before": False,
        "prompts": {},
        "instructions": None,
        "query_tokens": None,
        "document_tokens": None,
        "precision": None,
        "width": None,
        "batch_tokens": 8192,
        "shards": 1,
        "shard": None,
    }
    return MtebEvaluation.model_validate(values | changed)
