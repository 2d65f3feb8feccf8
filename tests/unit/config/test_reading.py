"""Option files are read as OmegaConf and Hydra read them, only sooner."""

from __future__ import annotations

import pytest
import yaml
from omegaconf import OmegaConf

from embedexp.config import compose_raw
from embedexp.config.locations import conf_dir
from embedexp.config.nested import alone
from embedexp.config.reading import load
from embedexp.config.sources import option_files

DATA = sorted((conf_dir() / "data").glob("*.yaml"))
GROUPS = ("negatives", "evaluation", "optimizer")


@pytest.mark.parametrize("path", [*DATA, conf_dir() / "config.yaml"], ids=lambda path: path.stem)
def test_a_file_says_what_omegaconf_reads(path):
    assert repr(load(path)) == repr(OmegaConf.load(path))


VALUES = (
    "[1e-4, 1_000, 2.0e-5, .5, yes, no, 012, 0x1F, 2026-01-02, 1:30, null, '???', '${seed}', ~]"
)


def test_numbers_words_and_dates_are_omegaconfs(tmp_path):
    path = tmp_path / "option.yaml"
    path.write_text(f"values: {VALUES}\nover: &it {{a: 1e3}}\nagain: {{<<: *it, b: 1}}\n")
    expected = OmegaConf.to_container(OmegaConf.load(path))
    assert repr(OmegaConf.to_container(load(path))) == repr(expected)
    assert expected["values"][0] == 1e-4, "YAML 1.1 alone would make a text of it"


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a: [1\n", "a: 'x\n"])
def test_a_broken_file_is_refused_in_the_same_words(tmp_path, text):
    path = tmp_path / "option.yaml"
    path.write_text(text)
    with pytest.raises(yaml.YAMLError) as expected:
        OmegaConf.load(path)
    with pytest.raises(yaml.YAMLError) as found:
        load(path)
    assert str(found.value) == str(expected.value)


def test_a_file_that_changes_is_read_again_and_nobody_shares_a_copy(tmp_path):
    path = tmp_path / "option.yaml"
    path.write_text("a: 1\n")
    load(path)["a"] = 7
    assert load(path) == {"a": 1}
    path.write_text("a: 10\n")
    assert load(path) == {"a": 10}


@pytest.mark.parametrize("group", GROUPS)
def test_an_option_by_itself_is_what_hydra_composes(group):
    for option in option_files(group):
        found = alone(group, option, (conf_dir(),))
        assert found == compose_raw([f"{group}={option}"])[group], option


def test_hydra_is_asked_where_options_of_other_groups_take_part():
    assert alone("stage", "mlm", (conf_dir(),)) is None
    assert alone("paper", "moee/rw", (conf_dir(),)) is None


def test_a_source_is_completed_as_omegaconf_merges(tmp_path):
    said = {"dataset": "x", "columns": {"query": "q", "negatives": "n"}, "prompt": "???"}
    typed = "{name: huggingface, dataset: x, columns: {query: q, negatives: n}, prompt: '???'}"
    raw = compose_raw(["data=mixture", f"+data.sources.a={{data: {typed}, count: 3}}"])
    base = OmegaConf.load(conf_dir() / "data" / "huggingface.yaml")
    base.pop("defaults", None)
    OmegaConf.set_struct(base, False)
    assert raw.data.sources.a.data == OmegaConf.merge(base, said)
    assert raw.data.sources.a.count == 3
