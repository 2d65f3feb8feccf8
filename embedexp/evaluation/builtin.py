"""evaluation=builtin: mteb tasks over the built-in corpus' held-out part, and the data's own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from embedexp.data.builtin import Heldout
from embedexp.data.builtin import heldout as builtin_heldout

from . import engine
from . import material as made
from .label_tasks import (
    Classification,
    Clustering,
    MultilabelClassification,
    PairClassification,
)
from .ranked_tasks import CrossLingualRetrieval, Reranking, Retrieval
from .tasks import UNKNOWN, Bitext, Similarity, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mteb import AbsTask

    from embedexp.config.schema.evaluation import BuiltinEvaluation
    from embedexp.data.dataset import Dataset

    from .encoder import Embedder
    from .scores import Phase, Score

PREFIX = "Heldout: "
"""Put before a dataset's name to name the task over what it keeps out of training."""


def evaluate(
    embedder: Embedder,
    option: BuiltinEvaluation,
    *,
    heldout: Sequence[Dataset] = (),
    on_task: Callable[[Score], None] | None = None,
    output: Path | None = None,
    phase: Phase = "after",
    done: Sequence[Score] = (),
    material: Callable[[], Heldout] = builtin_heldout,
) -> list[Score]:
    """See `embedexp.evaluation.evaluate`; `material` gives what the built-in tasks are made of."""
    content = material()
    tasks: list[Callable[[], AbsTask]] = [
        partial(BUILDERS[name], content, option) for name in option.tasks
    ]
    kept = [dataset for dataset in heldout if len(dataset)] if option.heldout else []
    tasks += [partial(heldout_task, dataset, option) for dataset in kept]
    return engine.run(
        embedder,
        tasks,
        sizes=option.model_dump(mode="json", exclude={"name", "tasks", "heldout", "before"}),
        training_tasks={PREFIX + dataset.name: dataset.task for dataset in kept},
        on_task=on_task,
        output=output,
        phase=phase,
        done=done,
    )


def definitions(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """From a word in its sentence to the gloss of its sense."""
    pairs = [(query, gloss) for _, query, gloss in content.definitions]
    return Retrieval(
        "WordNetDefinitions", pairs, queries=option.max_queries, documents=option.max_documents
    )


def similarity(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """How close two senses are in the taxonomy, from their glosses."""
    return Similarity("WordNetSimilarity", content.similarity[: option.max_examples])


def classes(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """A gloss's lexicographer class, learned on one half of the texts, told of the other."""
    rows = content.classes[: option.max_examples]
    train, test = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    return Classification("WordNetClasses", train, test)


def clusters(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """Glosses grouped by lexicographer class."""
    return Clustering("WordNetClusters", content.clusters[: option.max_examples])


def django(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """Sentences of a web framework's user interface, to English."""
    return Bitext("DjangoBitext", _share(content.django, option.max_examples))


def emoji(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """Names of emoji, to English."""
    return Bitext("EmojiBitext", _share(content.emoji, option.max_examples))


def candidates(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """The gloss of a word's sense in its sentence, among glosses of near senses."""
    pool = content.definitions[: option.max_documents]
    return Reranking("WordNetReranking", made.candidates(pool, option.max_queries))


def fitting(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """Whether a gloss is that of a word's sense in its sentence, or of a near sense."""
    return PairClassification(
        "WordNetPairs", made.fitting(content.definitions[: option.max_examples])
    )


def kinds(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """All the frequent concepts above a sense in the taxonomy, from its gloss."""
    rows = made.kinds(content.definitions)[: option.max_examples]
    train, test = made.halves(rows)
    return MultilabelClassification("WordNetKinds", train, test)


def django_retrieval(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """The English sentence of a web framework's user interface, asked for in other languages."""
    return _cross_lingual("DjangoRetrieval", content.django, option)


def emoji_retrieval(content: Heldout, option: BuiltinEvaluation) -> AbsTask:
    """The English name of an emoji, asked for in other languages."""
    return _cross_lingual("EmojiRetrieval", content.emoji, option)


def _cross_lingual(
    name: str, pairs: Mapping[str, Sequence[tuple[str, str]]], option: BuiltinEvaluation
) -> AbsTask:
    return CrossLingualRetrieval(
        name,
        pairs,
        queries=max(1, option.max_queries // len(pairs)),
        documents=option.max_documents,
    )


def _share(
    pairs: Mapping[str, Sequence[tuple[str, str]]], most: int
) -> dict[str, Sequence[tuple[str, str]]]:
    """As many pairs of each language, `most` in all."""
    return {code: rows[: max(1, most // len(pairs))] for code, rows in pairs.items()}


def heldout_task(dataset: Dataset, option: BuiltinEvaluation) -> AbsTask:
    """Retrieval of positives by queries; for scored pairs, the order of their similarity.

    The sample and its order depend on the texts alone, not on where the source lists them.
    """
    name = PREFIX + dataset.name
    order = sorted(
        range(len(dataset)), key=lambda i: digest(dataset.queries[i], dataset.positives[i])
    )
    pairs = [(dataset.queries[i], dataset.positives[i]) for i in order]
    if dataset.scores is not None:
        scored = [(*pair, float(dataset.scores[i])) for pair, i in zip(pairs, order, strict=True)]
        return Similarity(name, scored[: option.max_examples], language=UNKNOWN)
    return Retrieval(
        name,
        pairs,
        queries=option.max_queries,
        documents=option.max_documents,
        language=UNKNOWN,
    )


BUILDERS: dict[str, Callable[[Heldout, BuiltinEvaluation], AbsTask]] = {
    "WordNetDefinitions": definitions,
    "WordNetSimilarity": similarity,
    "WordNetClasses": classes,
    "WordNetClusters": clusters,
    "DjangoBitext": django,
    "EmojiBitext": emoji,
    "WordNetReranking": candidates,
    "WordNetPairs": fitting,
    "WordNetKinds": kinds,
    "DjangoRetrieval": django_retrieval,
    "EmojiRetrieval": emoji_retrieval,
}
"""How each built-in task is made of the material."""
