"""The composed, validated, frozen experiment that every room is given."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .schema import Experiment

if TYPE_CHECKING:
    from collections.abc import Mapping


class Config(Experiment):
    """An experiment with its identity; made by `compose` or read back by `Config.load`."""

    @cached_property
    def signature(self) -> str:
        """Ten hexadecimal digits; experiments with equal signatures have equal results."""
        from .sign import signature

        return signature(self)

    @cached_property
    def cell(self) -> str:
        """The signature without the seed: what repetitions of one experiment share."""
        from .sign import signature

        return signature(self, with_seed=False)

    @property
    def run_name(self) -> str:
        """Name of the run directory: `name-signature`."""
        return f"{self.name}-{self.signature}"

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed but probably not meant, one sentence each."""
        from .checks import check

        return tuple(
            f"{problem.message}; {problem.fix}"
            for problem in check(self)
            if problem.severity == "warning"
        )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some keys changed, not validated again; its identity is its own."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("signature", "cell", "warnings"):
            copied.__dict__.pop(name, None)
        return copied

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and scalars."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """The frozen form that `load` reads back to an equal config."""
        # The cells of a sweep share most sections, and writing YAML is slow.
        return "".join(_section(json.dumps({k: v})) for k, v in self.to_dict().items())

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read a frozen config, or the one in a run directory.

        Nothing is composed again: what counted when it was written counts now. Raises `UserError`
        if the file is missing, is no YAML mapping or does not fit the schema.
        """
        from .frozen import load

        return load(Path(path))


@lru_cache(maxsize=4096)
def _section(text: str) -> str:
    """The YAML of one section, given as JSON."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumped: str = yaml.dump(
        json.loads(text), Dumper=dumper, sort_keys=False, allow_unicode=True, width=100
    )
    return dumped
