"""Overrides become one frozen experiment, and a multirun its cells in Hydra's order."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pydantic
import pytest

from embedexp.config import Config, UserError, compose, compose_raw, expand

if TYPE_CHECKING:
    from pathlib import Path


def test_interpolations_are_resolved_and_overrides_win() -> None:
    config = compose(["loss=cosent", "seed=3", "data.weights.wordnet_similarity=2"])
    assert config.data.tasks == ["sts"]
    assert config.seed == 3
    assert config.data.weights.wordnet_similarity == 2.0


def test_a_config_is_frozen() -> None:
    config = compose([])
    with pytest.raises(pydantic.ValidationError):
        config.seed = 1  # type: ignore[misc]


def test_a_written_config_reads_back_equal(tmp_path: Path) -> None:
    config = compose(["routing=mote", "loss=task_aware", "batching=task_aware"])
    file = tmp_path / "config.yaml"
    file.write_text(config.to_yaml())
    for path in (file, tmp_path):
        again = Config.load(path)
        assert again == config
        assert again.signature == config.signature


@pytest.mark.parametrize(
    ("text", "part"),
    [("seed: 1", "missing"), ("- a", "holds no experiment"), ("a: [", "no valid YAML")],
)
def test_a_damaged_config_file_is_told(tmp_path: Path, text: str, part: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=part):
        Config.load(file)


def test_a_changed_key_in_a_config_file_is_told_with_its_line(tmp_path: Path) -> None:
    text = compose(["training.steps=77"]).to_yaml().replace("steps: 77", "steps: -77")
    (tmp_path / "config.yaml").write_text(text)
    line = text.splitlines().index("  steps: -77") + 1
    with pytest.raises(UserError, match=f"config.yaml:{line}"):
        Config.load(tmp_path)


def test_options_of_the_user_are_found_and_do_not_leak(tmp_path: Path) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "mine.yaml").write_text("defaults: [cosent, _self_]\nscale: 7.0\n")
    config = compose(["loss=mine"], [tmp_path])
    assert config.loss.name == "cosent"
    assert config.loss.scale == 7.0
    with pytest.raises(UserError, match="no option mine"):
        compose(["loss=mine"])


def test_cells_come_in_hydras_order() -> None:
    cells = expand(["seed=0,1", "routing=dense,moe", "training.steps=5"])
    assert cells == [
        ["seed=0", "routing=dense", "training.steps=5"],
        ["seed=0", "routing=moe", "training.steps=5"],
        ["seed=1", "routing=dense", "training.steps=5"],
        ["seed=1", "routing=moe", "training.steps=5"],
    ]


def test_ranges_globs_and_lists_expand() -> None:
    assert expand(["seed=range(0,3)"]) == [["seed=0"], ["seed=1"], ["seed=2"]]
    assert expand(["mask_schedule=glob(*al)"]) == [
        ["mask_schedule=bidirectional"],
        ["mask_schedule=causal"],
    ]
    assert len(expand(["loss.tasks=[retrieval],[retrieval,clustering]"])) == 2


def test_every_cell_of_a_sweep_composes() -> None:
    signatures = {compose(cell).signature for cell in expand(["routing=dense,moe", "seed=0,1"])}
    assert len(signatures) == 4


def test_the_raw_config_has_hydras_node_only_when_asked() -> None:
    assert "hydra" not in compose_raw(["seed=5"])
    assert compose_raw(["seed=5"], with_hydra=True).hydra.overrides.task == ["seed=5"]


@pytest.mark.parametrize(
    "overrides",
    [
        ["routing=moe", "routing.top_k=1", "loss.tasks=[retrieval]", "++seed=4"],
        ["+backbone.architecture.hidden_dropout_prob=0.2", "~data.weights.wordnet_classes"],
        ["name=${stage.name}", "training.steps=${batching.size}", "hydra.launcher.processes=2"],
    ],
    ids=" ".join,
)
def test_options_composed_once_give_what_hydra_composes(overrides: list[str]) -> None:
    whole = compose_raw(overrides, with_hydra=True)
    for _ in range(2):  # the second time the options are remembered
        assert compose_raw(overrides) == {k: whole._get_node(k) for k in whole if k != "hydra"}
    assert "hidden_dropout_prob" not in compose_raw([]).backbone.architecture


def test_a_file_may_choose_options_of_hydras_own_groups(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    text = "# @package _global_\ndefaults:\n  - override /hydra/launcher: basic\nname: mine\n"
    (tmp_path / "paper" / "mine.yaml").write_text(text)
    assert compose(["+paper=mine"], [tmp_path]).name == "mine"


def test_a_changed_option_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "loss").mkdir()
    file = tmp_path / "loss" / "mine.yaml"
    for scale in (7.0, 8.25):
        file.write_text(f"defaults: [cosent, _self_]\nscale: {scale}\n")
        assert compose(["loss=mine"], [tmp_path]).loss.scale == scale


def test_composing_and_showing_import_nothing_heavy() -> None:
    code = """
import sys
from embedexp.config import UserError, compose
from embedexp.config.show import brief, diff, show
config = compose(["routing=moe"])
show(config), brief(config), diff(config, compose([])), config.signature
try:
    compose(["loss.temprature=1"])
except UserError:
    pass
heavy = {"torch", "lightning", "transformers", "sentence_transformers", "mteb", "wandb"}
heavy |= {"matplotlib", "numpy", "datasets", "rich"}
sys.exit(", ".join(sorted(heavy & {name.partition(".")[0] for name in sys.modules})) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
