"""Every mistake is told in at most three lines: what, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedexp.config import UserError, compose, expand
from embedexp.config.errors import closest, nearest

if TYPE_CHECKING:
    from pathlib import Path


def error_of(*overrides: str, config_dirs: tuple[Path, ...] = ()) -> str:
    with pytest.raises(UserError) as caught:
        compose(overrides, config_dirs)
    text = str(caught.value)
    assert 1 <= len(text.splitlines()) <= 3
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["loss=infonc"], ["no option infonc", "loss=infonc", "did you mean loss=infonce?"]),
        (["hydra/launcher=slrum"], ["hydra/launcher has no option slrum", "local"]),
        (["hydra/lancher=local"], ["did you mean hydra/launcher=local?"]),
        (["hydra.launcher.proceses=2"], ["did you mean hydra.launcher.processes=2?"]),
        (["lss/other=infonce"], ["no config group lss/other"]),
        (["temperature=0.1"], ["did you mean loss.temperature=0.1 or"]),
        (["los.temperature=0.1"], ["did you mean loss.temperature=0.1?"]),
        (["routing.top_k=1"], ["routing=dense", "belongs to routing=moe"]),
        (["training.steps.x=1"], ["training.steps", "no keys below it"]),
        (["+seed=1"], ["seed is there already", "without the +: seed=1"]),
        (["+loss=cosent"], ["has an option already", "loss=cosent"]),
        (["~loss"], ["every experiment needs the group loss", "infonce"]),
        (["~training.steps"], ["cannot be taken out"]),
        (["loss@other=cosent"], ["without the @: loss=cosent"]),
        (["+backbone.architecture.hiden_size=64"], ["backbone.architecture.hidden_size=64?"]),
        (["backbone.architecture.scaling=2"], ["write +backbone.architecture.scaling=2"]),
        (["training.steps=abc"], ["training.steps=abc", "a whole number, at least 1 (steps)"]),
        (["training.steps=0"], ["training.steps=0", "at least 1"]),
        (["training.steps=1e3"], ["training.steps=1000"]),
        (["training.steps=true"], ["training.steps=true", "a whole number"]),
        (["embedding.normalize=yes"], ["write true or false"]),
        (["loss.temperature=nan"], ["loss.temperature", "finite number"]),
        (["optimizer.betas=[0.9]"], ["optimizer.betas=[0.9]", "a list of 2"]),
        (["optimizer.betas=[0.9,2]"], ["optimizer.betas holds 2", "less than 1"]),
        (["training.precision=float23"], ["does not know float23", "did you mean float32?"]),
        (["loss.tasks=[retreival]"], ["loss.tasks", "did you mean retrieval?"]),
        (["routing=moe", "routing.placement=evry"], ["did you mean every?"]),
        (["loss=task_aware", "loss.temperatures=1"], ["keys retrieval, classification"]),
        (["name=a b"], ["name=a b", "must not have"]),
        (["data=jsonl"], ["no value yet: the file,", "jsonl.yaml:3", "data.path=..."]),
        (["data.tasks=[retrieval"], ["cannot read", "brackets [] do not match"]),
        (["name='a"], ["cannot read", "quotes ' do not match"]),
        (["seed"], ["seed=..."]),
        (["seed=1,2"], ["several values", "-m runs each of them"]),
        (["data.max_examples=${scale.fo}"], ["data.max_examples=${scale.fo}", "no key scale.fo"]),
        (["loss.tasks=${lss.tasks}"], ["loss.tasks=${lss.tasks}", "did you mean ${loss.tasks}?"]),
        (["seed=${oc.evn:HOME}"], ["no resolver oc.evn", "oc.env"]),
        (["name=${oc.env:EMBEDEXP_NOT_SET}"], ["name=", "'EMBEDEXP_NOT_SET' not found"]),
        (["seed=${seed}"], ["refers to itself"]),
        (["loss.denominator={a: 1}"], ["loss.denominator"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) else "",
)
def test_the_message_says_what_where_and_what_to_do(overrides: list[str], parts: list[str]) -> None:
    text = error_of(*overrides)
    for part in parts:
        assert part in text, text


def _option(folder: Path, group: str, name: str, text: str) -> tuple[Path]:
    (folder / group).mkdir(parents=True, exist_ok=True)
    (folder / group / f"{name}.yaml").write_text(text)
    return (folder,)


WIDTHS = "matryoshka: {widths: null, weights: null}\n"
COSENT = f"name: cosent\ntasks: [sts]\nscale: 20.0\n{WIDTHS}"


def test_a_value_from_a_file_is_told_with_file_and_line(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "loss", "mine", COSENT.replace("20.0", "-1"))
    text = error_of("loss=mine", config_dirs=dirs)
    assert "loss.scale=-1" in text
    assert f"{tmp_path}/loss/mine.yaml:3" in text


def test_an_unknown_key_in_a_file_is_told_with_file_and_line(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "loss", "mine", COSENT + "scal: 3\n")
    text = error_of("loss=mine", config_dirs=dirs)
    assert "loss has no key scal" in text
    assert "mine.yaml:5" in text
    assert "did you mean loss.scale?" in text


def test_a_key_missing_in_a_file_is_named(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "loss", "mine", f"name: cosent\ntasks: [sts]\n{WIDTHS}")
    text = error_of("loss=mine", config_dirs=dirs)
    assert "loss.scale is missing" in text
    assert "mine.yaml" in text


def test_an_option_of_no_known_kind_is_told(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "loss", "mine", COSENT.replace("cosent", "cosine"))
    text = error_of("loss=mine", config_dirs=dirs)
    assert "did you mean cosent?" in text


def test_broken_yaml_is_told_with_file_and_line(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "loss", "mine", "name: cosent\ntasks: [sts\nscale: 1\n")
    text = error_of("loss=mine", config_dirs=dirs)
    assert "no valid YAML" in text
    assert "mine.yaml:3" in text


def test_an_interpolation_in_a_file_is_told_with_the_file(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "loss", "mine", COSENT.replace("20.0", "${sed}"))
    text = error_of("loss=mine", config_dirs=dirs)
    assert "loss.scale=${sed} cannot be resolved" in text
    assert "mine.yaml:3" in text
    assert "did you mean ${seed}?" in text


def test_a_missing_default_of_a_file_is_told(tmp_path: Path) -> None:
    dirs = _option(
        tmp_path,
        "paper",
        "mine",
        "# @package _global_\ndefaults:\n  - override /loss: cosentt\n",
    )
    text = error_of("+paper=mine", config_dirs=dirs)
    assert "loss/cosentt" in text
    assert "loss/cosent" in text


def test_a_paper_file_sets_options_and_where_its_values_stand(tmp_path: Path) -> None:
    body = "# @package _global_\ndefaults:\n  - override /routing: moe\nrouting:\n  top_k: 0\n"
    dirs = _option(tmp_path, "paper", "mine", body)
    text = error_of("+paper=mine", config_dirs=dirs)
    assert "routing.top_k=0" in text
    assert "paper/mine.yaml:5" in text


def test_a_group_that_must_be_added_says_so(tmp_path: Path) -> None:
    dirs = _option(tmp_path, "paper", "mine", "# @package _global_\nname: mine\n")
    assert "+paper=mine" in error_of("paper=mine", config_dirs=dirs)
    assert compose(["+paper=mine"], dirs).name == "mine"
    assert "did you mean +paper=mine?" in error_of("+paper=mien", config_dirs=dirs)


def test_a_config_folder_that_does_not_exist_is_told(tmp_path: Path) -> None:
    text = error_of(config_dirs=(tmp_path / "nowhere",))
    assert "nowhere does not exist" in text


def test_control_characters_never_reach_the_terminal() -> None:
    text = error_of("data=jsonl", "data.path='\x1b[31mred'")
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_a_long_value_is_shortened() -> None:
    assert max(map(len, error_of(f"name={'a ' * 200}b").splitlines())) < 160


def test_expand_explains_what_it_cannot_parse() -> None:
    with pytest.raises(UserError, match="brackets"):
        expand(["loss.tasks=[a"])
    with pytest.raises(UserError, match="interval"):
        expand(["loss.temperature=interval(0,1)"])


def test_closest_counts_a_swap_once_and_keeps_ties() -> None:
    assert closest("gcpu", ["cpu", "gpu", "tpu"]) == ["cpu", "gpu"]
    assert nearest("maen", ["mean", "last_token"]) == "mean"
    assert nearest("xyz", ["mean", "last_token"]) is None
