"""What is kept of a run besides its model, and models whose weights are in bf16."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import embedexp
from embedexp.cli import main
from embedexp.training import checkpoint

from .conftest import overrides


def composed(folder, *more):
    options = [item for item in overrides(folder, *more) if not item.startswith("evaluation.")]
    return embedexp.compose([*options, "evaluation=none"])


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_same_weights(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    """A finished run that has kept all of its checkpoints, of steps 4, 8 and 12."""
    folder = tmp_path_factory.mktemp("keeping")
    return embedexp.run(composed(folder, "training.keep_best=3"), quiet=True)


def test_the_best_checkpoints_outlive_the_run(keeping):
    kept = checkpoint.checkpoints(keeping.directory.checkpoints)
    assert [checkpoint.step_of(path) for path in kept] == [4, 8, 12]
    means = [
        sum(line["loss"] for line in keeping.metrics()[step - 4 : step]) / 4 for step in (4, 8, 12)
    ]
    assert [checkpoint.loss_of(path) for path in kept] == pytest.approx(means)


def test_a_checkpoint_becomes_a_model(keeping, tmp_path, capsys):
    run = str(keeping.path)
    assert main(["consolidate", run]) == 0
    assert "model-step-00000012" in capsys.readouterr().out
    assert_same_weights(weights(keeping.path / "model-step-00000012"), weights(keeping.model))
    assert main(["consolidate", run, "--step", "4", "--to", str(tmp_path / "early")]) == 0
    early = weights(tmp_path / "early")
    assert any(
        not torch.equal(early[name], value) for name, value in weights(keeping.model).items()
    )
    assert embedexp.load(tmp_path / "early").encode(["a text"]).shape[0] == 1
    assert main(["consolidate", run, "--best", "--to", str(tmp_path / "best")]) == 0
    (best,) = checkpoint.best_of(keeping.directory.checkpoints, 1)
    assert (
        main(
            [
                "consolidate",
                run,
                "--step",
                str(checkpoint.step_of(best)),
                "--to",
                str(tmp_path / "same"),
            ]
        )
        == 0
    )
    assert_same_weights(weights(tmp_path / "best"), weights(tmp_path / "same"))
    capsys.readouterr()


def test_a_checkpoint_that_is_not_there_is_told_with_those_that_are(keeping, capsys):
    assert main(["consolidate", str(keeping.path), "--step", "5"]) == 2
    told = capsys.readouterr().err
    assert "no checkpoint of step 5" in told
    assert "4, 8, 12" in told


def test_weights_in_bf16_train_and_resume_bit_for_bit(tmp_path, keeping, interrupted):
    options = ("backbone.dtype=bfloat16", "optimizer.learning_rate=1e-3")
    whole = embedexp.run(composed(tmp_path / "whole", *options), quiet=True)
    assert {value.dtype for value in weights(whole.model).values()} == {torch.bfloat16}
    exact = [line["loss"] for line in keeping.metrics()]
    assert [line["loss"] for line in whole.metrics()] == pytest.approx(exact, rel=0.05)

    config = composed(tmp_path / "parts", *options)
    interrupted(config, 6)
    resumed = embedexp.run(config, quiet=True)
    assert_same_weights(weights(resumed.model), weights(whole.model))
