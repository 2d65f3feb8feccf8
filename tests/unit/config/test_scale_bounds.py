"""scale=demo bounds every size, leaves smaller ones alone, and keeps the warm-up's share."""

from __future__ import annotations

from embedexp.config import compose, scale
from embedexp.config.tree import dotted_keys


def test_every_size_is_within_its_bound() -> None:
    steps = ["scale=demo", "training.steps=1000", "optimizer.warmup_steps=100"]
    checked = set()
    stages = [[], ["stage=mlm"], ["stage=sft"], ["stage=probe"]]
    for stage in [*stages, ["stage=translate", "stage.generators.main.model=m"]]:
        trains = not stage or stage[0] not in ("stage=probe", "stage=translate")
        values = compose([*(steps if trains else steps[:1]), *stage]).to_dict()
        for dotted, bound in scale.BOUNDS.items():
            group, key = dotted.split(".")
            if values[group].get(key) is not None:
                assert values[group][key] <= values["scale"][bound], dotted
                checked.add(dotted)
    assert checked == set(scale.BOUNDS)


def test_every_bound_of_the_schema_bounds_something() -> None:
    bounds = {key.removeprefix("scale.") for key in dotted_keys() if key.startswith("scale.")}
    assert bounds - {"name"} == set(scale.BOUNDS.values())


def test_smaller_values_stay() -> None:
    config = compose(["scale=demo", "training.steps=3", "batching.size=2", "backbone=tiny"])
    assert config.training.steps == 3
    assert config.batching.size == 2
    assert config.backbone.layers is None


def test_the_warm_up_keeps_its_share_of_the_steps() -> None:
    config = compose(["scale=demo", "training.steps=1000", "optimizer.warmup_steps=100"])
    assert (config.training.steps, config.optimizer.warmup_steps) == (20, 2)


def test_full_scale_changes_nothing() -> None:
    plain = compose([]).to_dict()
    assert scale.apply(plain) == plain


def test_what_is_bounded_counts_and_the_bound_does_not() -> None:
    small = ["training.steps=2", "scale=demo"]
    assert compose(small).signature == compose([*small, "scale.steps=10"]).signature
    assert compose(["scale=demo"]).signature != compose([]).signature
