"""stage=merge: where the models that it makes are scored."""

from __future__ import annotations

import embedexp
from embedexp.stage import merge as stage


def test_models_are_scored_on_the_device_of_compute(tmp_path, monkeypatch):
    for seed in (0, 1):
        config = embedexp.compose(["backbone=tiny", f"seed={seed}"])
        embedexp.build_embedder(config).save(tmp_path / f"m{seed}")
    places = []
    monkeypatch.setattr(stage, "device", lambda *_: "meta")  # stands for a GPU
    monkeypatch.setattr(stage, "measure", lambda _, embedder, *__: places.append(embedder.device))
    inputs = f"merge.inputs=[{tmp_path / 'm0'},{tmp_path / 'm1'}]"
    folders = [f"paths.runs={tmp_path / 'runs'}", f"paths.cache={tmp_path / 'cache'}"]
    merging = ["stage=merge", "merge=uniform", inputs, "tracking=none", *folders]
    embedexp.run(embedexp.compose(merging), quiet=True)
    assert [place.type for place in places] == ["meta"]


def test_a_soup_is_chosen_by_the_tasks_that_are_named(tmp_path):
    given = ["stage=merge", "merge=greedy_soup", f"merge.inputs=[{tmp_path},{tmp_path}]"]
    given += ["evaluation=mteb", "evaluation.tasks=[STS12,STS13]", "evaluation.benchmarks=[BEIR]"]
    named = stage.deciding(embedexp.compose([*given, "merge.tasks=[STS12]"]))
    assert (named.tasks, named.benchmarks) == (["STS12"], [])
    every = stage.deciding(embedexp.compose(given))
    assert (every.tasks, every.benchmarks) == (["STS12", "STS13"], ["BEIR"])
    builtin = [*given[:3], "merge.tasks=[WordNetClasses]"]
    assert stage.deciding(embedexp.compose(builtin)).tasks == ["WordNetClasses"]
