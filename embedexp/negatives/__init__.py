"""Which wrong answers a query sees beside those of its batch."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from embedexp.config.options import implementation

from .missing import NoNegativesError

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Negatives
    from embedexp.data import Corpus

__all__ = ["NoNegativesError", "attach"]

log = logging.getLogger(__name__)


def attach(option: Negatives, corpus: Corpus) -> Corpus:
    """The corpus with the option's hard negatives on its training datasets.

    Scored pairs have none. In a mixture, datasets for which there are none train without.

    Raises:
        UserError: no dataset gets any (of another option than `none`), or a file is wrong.
    """
    module = implementation("negatives", option.name)
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
    return replace(corpus, train=tuple(datasets))
