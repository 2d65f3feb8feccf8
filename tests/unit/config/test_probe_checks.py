"""What stage=probe refuses, and what its suites say."""

from __future__ import annotations

import pytest

from embedexp.config import compose
from embedexp.config.errors import UserError


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stage.only=[coal]"], "did you mean cola"),
        (["stage.only=[rte]"], "add mnli to stage.only"),
        (["stage.tasks.mnli.starts_from=sst2"], "itself starts from"),
        (["stage.tasks.cola.metrics=[pearson]"], "choose from accuracy, f1, matthews"),
        (["stage.tasks.mnli.metrics=[f1]"], "of the second of two classes"),
        (["stage.tasks.stsb.labels=[a,b]"], "labels has no effect"),
        (["stage.tasks.cola.kind=choice", "stage.tasks.cola.metrics=[accuracy]"], "no choices"),
        (["stage.max_tokens=513"], "has 512 positions"),
        (["mask_schedule=causal"], "stage.pooling=last_token"),
        (["stage.tasks.cola.dataset=/nowhere/glue"], "is no folder"),
    ],
)
def test_contradictions_are_found_when_composing(overrides, words):
    with pytest.raises(UserError) as error:
        compose(["stage=probe", *overrides]).signature  # noqa: B018
    assert words in str(error.value) + str(error.value.hint)


def test_the_protocol_is_the_published_one():
    stage = compose(["stage=probe"]).stage
    assert (stage.epochs, len(stage.seeds)) == (3, 5)
    assert stage.batch_sizes == [16, 32]
    assert stage.learning_rates == [1e-5, 2e-5, 3e-5]
    assert (stage.warmup_ratio, stage.max_grad_norm) == (0.06, 1.0)
    starts = {name for name, task in stage.tasks.items() if task.starts_from == "mnli"}
    assert starts == {"rte", "stsb", "mrpc"}
    assert len(stage.tasks) == 8
    assert {n: t.metrics for n, t in stage.tasks.items()} == {
        "cola": ["matthews"], "sst2": ["accuracy"], "mnli": ["accuracy"], "qnli": ["accuracy"],
        "rte": ["accuracy"], "mrpc": ["f1", "accuracy"], "qqp": ["f1", "accuracy"],
        "stsb": ["pearson", "spearman"],
    }  # fmt: skip


def test_groups_without_a_part_in_it_do_not_count_and_tasks_do():
    base = compose(["stage=probe"]).signature
    assert compose(["stage=probe", "stage.tasks.cola.dataset=other/glue"]).signature != base
    assert compose(["stage=probe", "stage.seeds=[0]"]).signature != base
    assert compose(["stage=probe", "stage.batch_tokens=99"]).signature == base


def test_a_misspelt_suite_is_named_with_the_nearest():
    with pytest.raises(UserError) as error:
        compose(["stage=probe", "probes@stage.tasks=xtremer"])
    assert "xtreme_r" in f"{error.value} {error.value.hint}"
