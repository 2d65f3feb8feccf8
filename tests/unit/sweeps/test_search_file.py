from __future__ import annotations

import pytest
import yaml

from embedexp.config.errors import UserError
from embedexp.sweeps.file import read as read_table
from embedexp.sweeps.search.file import is_search, read, settings_in
from embedexp.sweeps.search.space import Choice, Number

SPACE = {
    "loss.temperature": {"low": 0.01, "high": 0.1, "log": True},
    "routing": ["dense", "moe"],
    "routing.num_experts": {
        "low": 2,
        "high": 8,
        "step": 2,
        "int": True,
        "when": {"routing": "moe"},
    },
    "recipe": {"choice": {"short": ["training.steps=8", "batching.size=16"], "long": []}},
}


def written(folder, **changed):
    content = {"mode": "search", "title": "A", "question": "B?", "space": SPACE} | changed
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_space_in_a_file_is_the_space_that_is_searched(tmp_path):
    path = written(tmp_path, base=["backbone=tiny"])
    file, space = read(path)
    assert is_search(path)
    assert file.base == ["backbone=tiny"]
    by_key = {one.key: one for one in space.parameters}
    assert by_key == {
        "loss.temperature": Number("loss.temperature", 0.01, 0.1, log=True),
        "routing": Choice("routing", {"dense": ("routing=dense",), "moe": ("routing=moe",)}),
        "routing.num_experts": Number(
            "routing.num_experts", 2.0, 8.0, step=2.0, whole=True, when={"routing": ("moe",)}
        ),
        "recipe": Choice("recipe", {"short": ("training.steps=8", "batching.size=16"), "long": ()}),
    }


def test_settings_are_the_defaults_then_the_files_then_the_command_lines(tmp_path):
    file, _ = read(written(tmp_path, search={"trials": 7, "sampler": "gp"}))
    found = settings_in(file, ["hydra.sweeper.trials=9"])
    assert (found.trials, found.sampler, found.most_failures) == (9, "gp", 10)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"space": {"a": {"low": 1, "hihg": 2}}}, "high is missing|did you mean high"),
        ({"space": {"a": {"low": 2, "high": 1}}}, "no interval"),
        ({"space": {"a": 5}}, "no space"),
        ({"space": {"a": [1, 2], "b": {"low": 0, "high": 1, "when": {"c": 1}}}}, "not searched"),
        ({"spce": {}}, "did you mean space"),
        ({"title": None}, "title"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, changed, told):
    with pytest.raises(UserError, match=told) as caught:
        read(written(tmp_path, **changed))
    assert "search.yaml" in str(caught.value)


def test_a_key_that_is_there_twice_is_refused_rather_than_dropped(tmp_path):
    path = written(tmp_path)
    again = "space:\n  routing: [dense]\n  loss.temperature: [1, 2]\n  routing: [moe, dense]\n"
    path.write_text(f"mode: search\ntitle: A\nquestion: B?\n{again}")
    with pytest.raises(UserError, match=r"'routing' is there twice\n.*:7"):
        read(path)


def test_a_setting_that_is_none_is_refused(tmp_path):
    file, _ = read(written(tmp_path, search={"trails": 7}))
    with pytest.raises(UserError, match="did you mean trials"):
        settings_in(file, [])


def test_a_search_has_no_table(tmp_path):
    with pytest.raises(UserError, match="is a search, which has no table"):
        read_table(written(tmp_path))
