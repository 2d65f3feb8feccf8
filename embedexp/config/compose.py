"""From overrides to a validated experiment: Hydra composes, the schema and the checks judge."""

from __future__ import annotations

import os
import pickle
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

from .demo import chooses_paper, restrict, with_substitutes
from .locations import conf_dir, files_stamp, search_folders
from .nested import alone, fill

# Hydra and the schema are imported where work starts: many commands need neither.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hydra.core.config_loader import ConfigLoader
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

    from .experiment import Config

PRIMARY = "config"
UNLIKE = ("data", "evaluation")
"""Groups whose options mean different things by the same key, such as `tasks`."""

_VARIABLE = re.compile(r"\$\{oc\.env:(\w+)")
_KEY = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")
_FROM_ENVIRONMENT: dict[tuple[str | None, ...], Any] = {}


def compose(overrides: Sequence[str] = (), config_dirs: Sequence[str | Path] = ()) -> Config:
    """Compose, resolve, scale, validate and cross-check an experiment.

    `overrides` follow Hydra's grammar; `config_dirs` are further folders with options of the same
    groups. Raises `UserError` for everything that a user can get wrong.
    """
    from .explain import presented

    with presented(overrides, config_dirs):
        _require_known_keys(overrides, config_dirs)
        raw = compose_raw(overrides, config_dirs)
        return from_raw(raw, overrides, published_values(overrides, config_dirs))


def paper_overrides(overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> list[str]:
    """The overrides that choose a paper's file, and what that file leaves for the user to give.

    So they compose to the published set-up; none where no paper is chosen.
    """
    from omegaconf import OmegaConf

    papers = [text for text in overrides if chooses_paper(text)]
    if not papers:
        return []
    given = OmegaConf.missing_keys(compose_raw(papers, config_dirs))
    named = [text for text in overrides if text.lstrip("+").partition("=")[0] in given]
    return [*papers, *named]


def published_values(
    overrides: Sequence[str], config_dirs: Sequence[str | Path]
) -> dict[str, Any] | None:
    """What the chosen paper's file says by itself, where the overrides say more; else None."""
    papers = [text for text in overrides if chooses_paper(text)]
    if not papers or len(papers) == len(overrides):
        return None
    folders = search_folders(config_dirs)
    return _said(tuple(papers), tuple(folders[1:]), files_stamp(folders))


# The cells of a sweep share it, and nobody changes it.
@lru_cache(maxsize=16)
def _said(papers: tuple[str, ...], extra: tuple[Path, ...], stamp: int) -> dict[str, Any]:
    from omegaconf import OmegaConf

    raw = compose_raw(papers, extra)
    OmegaConf.set_struct(raw, False)
    for key in OmegaConf.missing_keys(raw):
        OmegaConf.update(raw, key, None)  # which the user must give
    return cast("dict[str, Any]", _plain(raw))


def _require_known_keys(overrides: Sequence[str], config_dirs: Sequence[str | Path]) -> None:
    """Refuse misspelt keys before Hydra composes: sooner, and those that only `+` would let in."""
    from .lint import require_known, surely_unknown

    folders = search_folders(config_dirs)
    adding = [text for text in overrides if text.startswith("+") and "." in text.partition("=")[0]]
    doubtful = [text for text in overrides if text in adding or surely_unknown(text, folders)]
    if doubtful:
        require_known(doubtful, overrides, config_dirs)


def compose_raw(
    overrides: Sequence[str] = (),
    config_dirs: Sequence[str | Path] = (),
    *,
    with_hydra: bool = False,
) -> DictConfig:
    """Hydra's composed config, neither resolved nor validated; `with_hydra` keeps its own node.

    Raises Hydra's and OmegaConf's own exceptions; `explain.present` turns them into `UserError`.
    """
    folders = tuple(search_folders(config_dirs))
    raw, choosing, overrides = _chosen(overrides, folders)
    if with_hydra:
        raw = _load(overrides, config_dirs)
        _without_papers_leftovers(raw, choosing, folders)
        return raw
    # Sources of a mixture are complete before their single keys are set.
    adding = [text for text in overrides if text.startswith("+data.sources.")]
    _apply(adding, raw)
    fill(raw, folders)
    _apply([text for text in overrides if text not in choosing and text not in adding], raw)
    fill(raw, folders)
    return raw


def _chosen(
    overrides: Sequence[str], folders: tuple[Path, ...]
) -> tuple[DictConfig, list[str], list[str]]:
    """The composed options, which overrides choose them, and all overrides, substitutes included.

    The latter are what a paper's file wants at `scale=demo`.
    """
    choosing = [text for text in overrides if _chooses(text, folders)]
    papers = [text for text in choosing if chooses_paper(text)]
    # What stands in is the paper's own to say, and composing takes a tenth of a second.
    first = papers if papers and "scale=demo" in choosing else choosing
    raw = _loaded(first, folders)
    overrides = with_substitutes(raw, overrides)
    choosing = [text for text in overrides if _chooses(text, folders)]
    if choosing != first:
        raw = _loaded(choosing, folders)
    _without_papers_leftovers(raw, choosing, folders)
    return raw, choosing, overrides


def _loaded(choosing: Sequence[str], folders: tuple[Path, ...]) -> DictConfig:
    # Loading a pickle is half the work of a deep copy.
    options = _options(tuple(choosing), folders[1:], files_stamp(folders))
    return cast("DictConfig", pickle.loads(options))


def _without_papers_leftovers(
    raw: DictConfig, choosing: Sequence[str], folders: tuple[Path, ...]
) -> None:
    """Take a paper's values out of groups in which another option than the paper's is chosen.

    Those that this option has, too, stay: `+paper=... loss=qwen3` keeps the paper's temperature.
    """
    from omegaconf import open_dict

    papers = [text for text in choosing if chooses_paper(text)]
    if not papers or len(papers) == len(choosing):
        return
    paper = _loaded(papers, folders)
    for text in choosing:
        group, _, option = text.partition("=")
        node = raw._get_node(group) if group in raw and "/" not in group else None
        if node is None or text in papers or cast("Any", paper)[group].get("name") == option:
            continue
        chosen = alone(group, option, folders) or _loaded([text], folders)._get_node(group)
        if group in UNLIKE:
            with open_dict(raw):
                raw[group] = chosen
        else:
            restrict(node, chosen)


def _load(overrides: Sequence[str], config_dirs: Sequence[str | Path]) -> DictConfig:
    from hydra.types import RunMode

    return loader(config_dirs).load_configuration(
        PRIMARY, list(overrides), run_mode=RunMode.RUN, from_shell=False
    )


# Composing options is nearly all of the work, and the cells of a sweep share their options.
@lru_cache(maxsize=256)
def _options(choosing: tuple[str, ...], extra: tuple[Path, ...], stamp: int) -> bytes:
    """The composed options, pickled, without any value override; files that change are a miss.

    They do so by their `stamp`.
    """
    from hydra.errors import HydraException
    from omegaconf import open_dict

    about_hydra = any(text.lstrip("+~").startswith("hydra") for text in choosing)
    try:
        raw = _load(choosing, extra) if about_hydra else _without_hydra(choosing, extra)
    except HydraException as exc:
        if about_hydra or "hydra/" not in str(exc):
            raise
        raw = _load(choosing, extra)  # a file chooses an option of Hydra's own groups
    with open_dict(raw):
        raw.pop("hydra", None)
    return pickle.dumps(raw, pickle.HIGHEST_PROTOCOL)


def _without_hydra(choosing: Sequence[str], config_dirs: Sequence[str | Path]) -> DictConfig:
    """What `_load` gives but for Hydra's own node, in half the time.

    It takes the steps of `ConfigLoaderImpl.load_configuration`, and leaves out what the primary
    config chooses from Hydra's groups.
    """
    from hydra._internal.defaults_list import create_defaults_list
    from omegaconf import OmegaConf

    composer: Any = loader(config_dirs)
    parsed, repository = composer._parse_overrides_and_create_caching_repo(PRIMARY, list(choosing))
    primary = repository.load_config(PRIMARY)
    primary.defaults_list = [
        entry
        for entry in primary.defaults_list
        if not (entry.is_override() and entry.group.startswith("hydra/"))
    ]
    listing = create_defaults_list(
        repo=repository,
        config_name=PRIMARY,
        overrides_list=parsed,
        prepend_hydra=False,
        skip_missing=False,
    )
    raw = composer._compose_config_from_defaults_list(listing.defaults, repository)
    OmegaConf.set_struct(raw, True)
    composer._apply_overrides_to_config(listing.config_overrides, raw)
    return cast("DictConfig", raw)


def _chooses(override: str, folders: Sequence[Path]) -> bool:
    """Whether an override chooses an option, or concerns Hydra itself; others set a value."""
    target = override.lstrip("+~").partition("=")[0]
    root = target.partition("@")[0].partition(".")[0]
    if root.startswith("hydra") or "/" in target or "@" in target:
        return True
    return root == target and any((folder / root).is_dir() for folder in folders)


def _apply(overrides: Sequence[str], raw: DictConfig) -> None:
    """Apply value overrides as Hydra does, and raise what Hydra raises."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.types import RunMode

    if not overrides:
        return
    parsed = [_parsed(text) for text in overrides]
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    ConfigLoaderImpl._apply_overrides_to_config(parsed, raw)


# The cells of a sweep share most of their overrides, and the parser takes milliseconds for each.
@lru_cache(maxsize=1024)
def _parsed(override: str) -> Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (parsed,) = OverridesParser.create().parse_overrides([override])
    return parsed


def from_raw(
    raw: DictConfig, overrides: Sequence[str] = (), paper: dict[str, Any] | None = None
) -> Config:
    """Resolve, scale, validate and check what Hydra composed.

    `overrides` are what the user typed, so that one without effect can be told; `paper` is what
    the paper's file among them says by itself, so that values that differ are marked. Raises
    OmegaConf's and pydantic's exceptions, and `UserError` from the cross-group checks.
    """
    from omegaconf import OmegaConf

    from . import provenance, scale
    from .checks import require
    from .experiment import Config

    fill(raw)  # where Hydra itself has composed
    OmegaConf.set_struct(raw, False)  # else a wrong interpolation does not say which key holds it
    plain = _plain(raw)
    scaled = scale.apply(cast("dict[str, Any]", plain))
    if paper is not None and isinstance(scaled.get("provenance"), dict):
        scaled["provenance"] = provenance.judged(scaled, paper)
    config = Config.model_validate(scaled)
    require(config, overrides)
    return config


def _plain(node: Any) -> Any:
    """What `OmegaConf.to_container(node, resolve=True, throw_on_missing=True)` gives, sooner.

    Few values refer to others; asking all of them whether they do takes most of its time.
    """
    content = node._content
    if isinstance(content, dict):
        return {key: _plain_child(node, key, child) for key, child in content.items()}
    if isinstance(content, list):
        return [_plain_child(node, index, child) for index, child in enumerate(content)]
    return content  # null, for a whole section


def _plain_child(parent: Any, key: Any, child: Any) -> Any:
    from omegaconf import Container, OmegaConf

    value = child._value()
    if isinstance(value, str):
        if value == "???":  # say so as OmegaConf does
            OmegaConf.to_container(parent, resolve=True, throw_on_missing=True)
        if "$" in value:
            return _reference(parent, key, value)
    return _plain(child) if isinstance(child, Container) else value


def _reference(parent: Any, key: Any, text: str) -> Any:
    from omegaconf import Container

    if (found := _named(parent, text)) is not None:
        return found
    variables = _VARIABLE.findall(text)
    if text.count("${") > len(variables):
        found = parent[key]
        return _plain(found) if isinstance(found, Container) else found
    # It depends on nothing else, and reading such a text takes a millisecond.
    known = (text, *(os.environ.get(name) for name in variables))
    if known not in _FROM_ENVIRONMENT:
        _FROM_ENVIRONMENT[known] = parent[key]
    return _FROM_ENVIRONMENT[known]


def _named(parent: Any, text: str) -> Any:
    """The plain value that `${group.key}` stands for; None where OmegaConf has to find it.

    Every source of a mixture refers to several, and the grammar's parser takes milliseconds.
    """
    from omegaconf import Container

    match = _KEY.fullmatch(text)
    if match is None:
        return None
    node = parent._get_root()
    for part in match[1].split("."):
        content = node._content if isinstance(node, Container) else None
        if not isinstance(content, dict) or part not in content:
            return None
        node = content[part]
    value = None if isinstance(node, Container) else node._value()
    return None if isinstance(value, str) and ("$" in value or value == "???") else value


def expand(overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> list[list[str]]:
    """The cells of a multirun, each as its list of overrides, in Hydra's order.

    The last sweep varies fastest. Raises `UserError` where an override cannot be parsed or sweeps
    over a continuous interval, which only a search can do.
    """
    from .explain import presented

    with presented(overrides, config_dirs, sweep=True):
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
        from hydra.core.override_parser.overrides_parser import OverridesParser

        parser = OverridesParser.create(config_loader=loader(config_dirs))
        (cells,) = BasicSweeper.split_arguments(parser.parse_overrides(list(overrides)), None)
        return cells


def loader(config_dirs: Sequence[str | Path] = ()) -> ConfigLoader:
    """Hydra's loader over the project's folder and the user's; needs no global state of Hydra.

    Raises `UserError` where a folder does not exist.
    """
    return _loader(tuple(str(folder) for folder in search_folders(config_dirs)[1:]))


@cache
def _loader(extra: tuple[str, ...]) -> ConfigLoader:
    from hydra import version
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.utils import create_config_search_path
    from hydra.core.config_search_path import SearchPathQuery

    from .reading import read_by

    version.setbase("1.3")
    search_path = create_config_search_path(str(conf_dir()))
    for folder in extra:
        # Hydra wants its own schema to come last.
        search_path.prepend("command-line", f"file://{folder}", SearchPathQuery(provider="schema"))
    return read_by(ConfigLoaderImpl(config_search_path=search_path))
