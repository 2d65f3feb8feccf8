"""Which wrong answers a query sees beside those of its batch."""

from __future__ import annotations

import logging
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from embedexp.config.options import implementation
from embedexp.config.schema.negatives import Dynamic
from embedexp.data.columns import heads

from .missing import NoNegativesError

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Negatives
    from embedexp.data import Corpus, Dataset
    from embedexp.data.tokenise import TokenisedCorpus

    from .filtering import consistency_filter
    from .mining import mine
    from .replacement import DynamicNegatives

__all__ = ["NoNegativesError", "attach", "build", "consistency_filter", "mine"]

log = logging.getLogger(__name__)

_LAZY = {"consistency_filter": "filtering", "mine": "mining"}  # they need numpy


def __getattr__(name: str) -> Any:
    """Import what computes when it is asked for."""
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def attach(option: Negatives, corpus: Corpus) -> Corpus:
    """The corpus with the option's hard negatives on its training datasets.

    Scored pairs have none. In a mixture, datasets for which there are none train without.

    Raises:
        UserError: no dataset gets any (of another option than `none`), or a file is wrong.
    """
    # Published sets of values of dynamic negatives have names of their own and the same module.
    name = "dynamic" if isinstance(option, Dynamic) else option.name
    module = implementation("negatives", name)
    datasets, refusals = [], []
    for dataset in corpus.train:
        if dataset.task == "sts":
            datasets.append(replace(dataset, negatives=None))
            continue
        try:
            datasets.append(module.attach(option, dataset))
        except NoNegativesError as refusal:
            datasets.append(replace(dataset, negatives=None))
            refusals.append(refusal)
    if option.name != "none" and all(dataset.negatives is None for dataset in datasets):
        if refusals:
            raise refusals[0]
        raise NoNegativesError(
            f"negatives={option.name} has no effect: scored pairs have no hard negatives",
            hint="use negatives=none",
        )
    for refused in refusals:
        log.warning("trains without hard negatives: %s", refused.what)
    train = tuple(map(_with_their_scores, corpus.train, datasets))
    return replace(corpus, train=train)


def build(option: Negatives, corpus: TokenisedCorpus) -> DynamicNegatives | None:
    """What chooses among the attached negatives at each step; None where all are always used."""
    if not isinstance(option, Dynamic):
        return None
    dynamic: DynamicNegatives = implementation("negatives", "dynamic").build(option, corpus)
    return dynamic


def _with_their_scores(before: Dataset, after: Dataset) -> Dataset:
    """Without the teacher's scores of the negatives that the data came with, if they are gone."""
    scores = after.teacher_scores
    if scores is None or scores is not before.teacher_scores or after.negatives is before.negatives:
        return after
    return replace(after, teacher_scores=heads(scores, 1))
