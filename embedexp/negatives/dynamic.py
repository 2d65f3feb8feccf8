"""`negatives=dynamic`: mined candidates that take turns during training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.schema.negatives import MinedFile, Own

from . import mined_file, own

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Dynamic
    from embedexp.data import Dataset
    from embedexp.data.tokenise import TokenisedCorpus

    from .replacement import DynamicNegatives


def attach(option: Dynamic, dataset: Dataset) -> Dataset:
    """The first `pool` candidates of each query, of a mined file or of the data's own.

    Raises:
        NoNegativesError: there are none for this dataset.
        UserError: the file is missing or one of its lines is wrong.
    """
    if option.path is None:
        return own.attach(Own(name="own", count=option.pool), dataset)
    source = MinedFile(name="mined_file", path=option.path, count=option.pool)
    return mined_file.attach(source, dataset)


def build(option: Dynamic, corpus: TokenisedCorpus) -> DynamicNegatives:
    """The state of the candidates of `corpus`, none of them judged yet."""
    from .replacement import DynamicNegatives, Rule

    rule = Rule(
        factor=option.factor,
        ceiling=option.ceiling,
        floor=option.floor,
        whole_set=option.whole_set,
        every=option.every,
    )
    candidates = [dataset.negative_ids for dataset in corpus.datasets]
    return DynamicNegatives(candidates, rule, count=option.count, skip=option.skip)
