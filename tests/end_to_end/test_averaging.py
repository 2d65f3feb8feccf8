"""Averages over training: they follow their formulas, resume bit for bit, and become the model."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import embedexp
from embedexp.cli import main
from embedexp.stage.building import trained
from embedexp.training import checkpoint, saving
from embedexp.training.averaging import average_of
from embedexp.training.fit import objective_of

from .conftest import overrides

EMA = ("merge=ema", "merge.decay=0.8", "merge.every=2", "merge.start=3")
LAST = ("merge=last_k", "merge.k=3", "merge.every=2")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """All of these runs tokenise the same texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBEDEXP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def options(folder, *more):
    kept = [o for o in overrides(folder, *more) if not o.startswith(("evaluation.", "paths.cache"))]
    return [*kept, "evaluation=none"]


def composed(folder, *more):
    return embedexp.compose(options(folder, *more))


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_same_weights(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def each_step(run):
    """The weights after each step, in float64, as the checkpoints of all steps have them."""
    found = {}
    for path in checkpoint.checkpoints(run.directory.checkpoints):
        objective = objective_of(run.config, embedexp.build_embedder(run.config))
        saving.load_weights(objective, path)  # without an average: the weights themselves
        state = objective.embedder.model.state_dict()
        found[checkpoint.step_of(path)] = {k: v.double() for k, v in state.items()}
    return found


def assert_near(model, wanted):
    for name, value in model.items():
        torch.testing.assert_close(value.double(), wanted[name], rtol=0, atol=2e-7)


@pytest.fixture(scope="module")
def ema(tmp_path_factory):
    """A finished run with a moving average, all of whose checkpoints are kept."""
    every = ("training.checkpoint_every=1", "training.keep_best=12")
    folder = tmp_path_factory.mktemp("ema")
    return embedexp.run(composed(folder, *EMA, *every), quiet=True)


@pytest.fixture(scope="module")
def last(tmp_path_factory):
    """A finished run with the average of three moments."""
    return embedexp.run(composed(tmp_path_factory.mktemp("last"), *LAST), quiet=True)


def test_ema_is_the_recursion_over_the_saved_steps(ema):
    steps = each_step(ema)
    assert sorted(steps) == list(range(1, 13))
    average = steps[3]
    for step in (5, 7, 9, 11):
        average = {k: 0.8 * v + 0.2 * steps[step][k] for k, v in average.items()}
    assert_near(weights(ema.model), average)
    name = "encoder.layer.0.output.dense.weight"
    assert (weights(ema.model)[name].double() - steps[12][name]).abs().max() > 1e-4


def test_ema_from_the_start_includes_the_untrained_weights(tmp_path):
    more = ("merge=ema", "merge.decay=0.5", "training.steps=2", "training.checkpoint_every=1")
    more = (*more, "training.keep_best=2", "optimizer.warmup_steps=0")
    run = embedexp.run(composed(tmp_path, *more), quiet=True)
    steps = each_step(run)
    untrained = embedexp.build_embedder(run.config).model.state_dict()
    wanted = {
        k: 0.25 * v.double() + 0.25 * steps[1][k] + 0.5 * steps[2][k] for k, v in untrained.items()
    }
    assert_near(weights(run.model), wanted)


def test_last_k_is_the_mean_of_the_last_moments(ema, last):
    steps = each_step(ema)  # both train alike
    wanted = {k: (steps[8][k] + steps[10][k] + steps[12][k]) / 3 for k in steps[12]}
    assert_near(weights(last.model), wanted)


@pytest.mark.parametrize(
    ("option", "stops"),
    [("ema", (2,)), ("ema", (6, 8)), ("last", (9,))],
    ids=["before it begins", "twice", "last_k"],
)
def test_an_interrupted_average_ends_bit_equal(option, stops, tmp_path, interrupted, request):
    whole = request.getfixturevalue(option)
    config = composed(tmp_path, *(EMA if option == "ema" else LAST))
    for step in stops:
        interrupted(config, step)
    resumed = embedexp.run(config, quiet=True)
    assert_same_weights(weights(resumed.model), weights(whole.model))


def test_training_itself_is_not_changed_by_its_average(ema, tmp_path):
    plain = embedexp.run(composed(tmp_path), quiet=True)
    assert [line["loss"] for line in plain.metrics()] == [line["loss"] for line in ema.metrics()]
    assert plain.config.signature != ema.config.signature


def test_a_checkpoint_becomes_the_averaged_model(ema, tmp_path, capsys):
    assert main(["consolidate", str(ema.path), "--to", str(tmp_path / "last")]) == 0
    assert_same_weights(weights(tmp_path / "last"), weights(ema.model))
    early, *_ = checkpoint.checkpoints(ema.directory.checkpoints)
    state = trained(ema.config, early).embedder.model.state_dict()
    steps = each_step(ema)
    assert all(torch.equal(value.double(), steps[1][name]) for name, value in state.items())
    capsys.readouterr()


def test_the_average_is_in_float32_where_weights_are_not(tmp_path):
    option = ("backbone.dtype=bfloat16", "merge=ema", "merge.decay=0.999")
    run = embedexp.run(composed(tmp_path, *option, "training.keep_best=1"), quiet=True)
    (path,) = checkpoint.best_of(run.directory.checkpoints, 1)
    average = average_of(run.config)
    assert average is not None
    objective = objective_of(run.config, embedexp.build_embedder(run.config))
    saving.load_weights(objective, path, average)
    assert {value.dtype for value in average.tensors.values()} == {torch.float32}
    assert {value.dtype for value in weights(run.model).values()} == {torch.bfloat16}


def test_a_language_model_keeps_the_average_with_its_head(tmp_path):
    stage = ("stage=mlm", "data.max_examples=200", "training.steps=4", "optimizer.warmup_steps=0")
    common = [o for o in options(tmp_path, *stage) if not o.startswith("batching")]
    common += ["batching.size=8", "training.checkpoint_every=4"]
    plain = embedexp.run(embedexp.compose(common), quiet=True)
    last = ("merge=last_k", "merge.k=2", "merge.every=1")
    averaged = embedexp.run(embedexp.compose([*common, *last]), quiet=True)
    for file in ("model.safetensors", "head.safetensors"):
        a, b = load_file(plain.model / file), load_file(averaged.model / file)
        assert a.keys() == b.keys()
        assert any(not torch.equal(a[name], b[name]) for name in a), file
