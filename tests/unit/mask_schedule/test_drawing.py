from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest

from embedexp.cli.commands import run_command
from embedexp.config.errors import UserError
from embedexp.config.schema.mask_schedule import Causal, Linear
from embedexp.mask_schedule.drawing import draw


def picture(path):
    return matplotlib.image.imread(path)[..., :3]


def test_show_draws_the_mask_on_request(tmp_path, capsys):
    path = tmp_path / "mask.png"
    overrides = ["backbone=tiny_llama", "mask_schedule=accelerating", "training.steps=60"]
    run_command("show", overrides)
    assert not path.exists()
    run_command("show", [*overrides, "--plot", str(path)])
    assert str(path) in capsys.readouterr().out
    assert path.read_bytes().startswith(b"\x89PNG")
    assert picture(path).std() > 0.05


def test_the_picture_is_of_the_schedule_and_its_form(tmp_path):
    drawn = []
    for form in ("column", "row"):
        draw(Linear(name="linear", form=form), tmp_path / "a.png", steps=60)
        drawn.append(picture(tmp_path / "a.png"))
    draw(Causal(name="causal"), tmp_path / "a.png", steps=60)
    drawn.append(picture(tmp_path / "a.png"))
    # The strip, without the title above it.
    strips = [image[int(0.2 * len(image)) : int(0.6 * len(image))] for image in drawn]
    assert np.abs(strips[0] - strips[1]).max() > 0.3
    assert np.abs(strips[0] - strips[2]).max() > 0.3
    last = strips[0][:, int(0.9 * strips[0].shape[1]) :]
    assert last.mean() < strips[2][:, int(0.9 * strips[2].shape[1]) :].mean()  # open: darker


def test_a_file_that_cannot_be_written_is_explained(tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        draw(Causal(name="causal"), tmp_path / "nowhere" / "a.png", steps=2)


def test_a_stage_without_a_mask_has_nothing_to_draw(tmp_path):
    with pytest.raises(UserError, match="stage=evaluate has none"):
        run_command(
            "show", ["stage=evaluate", "stage.model=owner/name", "--plot", str(tmp_path / "a.png")]
        )
