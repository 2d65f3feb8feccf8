"""conf/ and the schema hold each other, both ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from omegaconf import OmegaConf

from embedexp.config import scale, tree
from embedexp.config.compose import compose_raw
from embedexp.config.experiment import Config
from embedexp.config.locations import conf_dir
from embedexp.config.schema import GROUPS, Experiment, Option
from embedexp.config.sources import option_files, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTIONS = [(group, name) for group in GROUPS for name in option_files(group)]
FILES = sorted(conf_dir().rglob("*.yaml"))


def _name(path: Path) -> str:
    return path.relative_to(conf_dir()).as_posix()


def _models(cls: type[Option] = Experiment) -> Iterator[type[Option]]:
    yield cls
    for info in cls.model_fields.values():
        for member in tree.union_members(info.annotation):
            if tree.is_model(member):
                yield from _models(member)


MODELS = sorted(set(_models()), key=lambda cls: cls.__name__)


def _filled(node: Any) -> Any:
    """The composed mapping with something of the right type where a user must give a value."""
    if isinstance(node, dict):
        return {key: _filled(value) for key, value in node.items()}
    return "given" if node == "???" else node


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_every_option_composes_and_fits_the_schema(group: str, name: str) -> None:
    raw = compose_raw([f"{group}={name}"])
    OmegaConf.set_struct(raw, False)
    plain: Any = _filled(OmegaConf.to_container(raw, resolve=True))
    if group == "merge":  # not all of its open values are texts
        count = 1 if name == "expert_average" else 2
        values = {"inputs": ["a", "b"][:count], "weights": [1.0, 2.0]}
        values |= {"experts": {"clustering": "a"}}
        plain["merge"] |= {k: v for k, v in values.items() if plain["merge"].get(k) == "given"}
    config = Config.model_validate(scale.apply(plain))
    assert getattr(config, group).name == name


def test_every_option_of_the_schema_has_a_file_and_the_other_way_round() -> None:
    for group in GROUPS:
        names = set(tree.classes(group)) - {tree.ANY_NAME}
        if names:
            assert names == set(option_files(group)), group
        else:
            assert option_files(group), group


def test_every_group_has_a_default_and_a_folder() -> None:
    defaults = yaml.safe_load((conf_dir() / "config.yaml").read_text())["defaults"]
    chosen = [next(iter(entry)) for entry in defaults if isinstance(entry, dict)]
    ours = [group for group in chosen if not group.startswith("override hydra/")]
    assert ours == list(GROUPS)
    folders = {path.name for path in conf_dir().iterdir() if path.is_dir()}
    assert set(GROUPS) == folders - {
        "columns",
        "hydra",
        "instructions",
        "paper",
        "probes",
        "prompts",
        "protocol",
    }


# A paper's files give values to keys that are explained elsewhere; they say where each comes from.
EXPLAINED = [path for path in FILES if "paper" not in path.relative_to(conf_dir()).parts]


@pytest.mark.parametrize("path", EXPLAINED, ids=_name)
def test_every_key_in_a_file_has_a_comment(path: Path) -> None:
    """Beside it, beside the mapping it stands in, or, for the name, at the top of the file."""
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# "), "the first line says what the option is"
    covered: list[tuple[int, bool]] = []  # indent and whether a comment covers it
    for line in lines[1:]:
        found = re.match(r"( *)([\w./]+):", line)
        if not found:
            continue
        indent = len(found[1])
        covered = [(other, comment) for other, comment in covered if other < indent]
        commented = " # " in line or any(comment for _, comment in covered)
        covered.append((indent, commented))
        assert commented or (found[2] in ("name", "_target_") and indent == 0), line


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_file_holds_a_key_twice_or_is_empty(path: Path) -> None:
    assert read_yaml(path)


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_fields_have_no_defaults_and_say_what_they_mean(cls: type[Option]) -> None:
    assert cls.__doc__
    for name, info in cls.model_fields.items():
        assert info.is_required(), f"{name}: defaults live in conf/"
        assert info.description, name


def test_lists_of_choices_in_comments_name_what_the_schema_allows() -> None:
    """A comment `a | b | c` beside a key lists its enumerated values."""
    checked = 0
    for group, name in OPTIONS:
        cls = tree.option_class(group, name)
        assert cls is not None
        for line in option_files(group)[name].read_text().splitlines():
            found = re.match(r"(\w+): .* # .*?(\w+(?: \| \w+)+)$", line)
            if found and found[1] in cls.model_fields:
                listed = set(found[2].split(" | "))
                assert listed == set(tree.literals(cls.model_fields[found[1]].annotation)), line
                checked += 1
    assert checked >= 5
