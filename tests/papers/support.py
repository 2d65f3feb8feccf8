"""What the tests of the papers' configs share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config import compose
from embedexp.config.locations import conf_dir
from embedexp.config.predecessors import planned

if TYPE_CHECKING:
    from embedexp.config import Config

PAPERS = conf_dir() / "paper"
NAMES = sorted(p.relative_to(PAPERS).with_suffix("").as_posix() for p in PAPERS.rglob("*.yaml"))

BEFORE = "runs/earlier-0123456789"
"""A run that is planned, and stands for what a config wants to be given."""

MINED = "runs/mined-9876543210"
"""Likewise, one of stage=mine."""

WANTED: dict[str, list[str]] = {
    "mote/ea": [f"merge.inputs=[{BEFORE}]"],
    "mote/evaluate": [f"stage.model={BEFORE}"],
    "llama_embed_nemotron/merge": [f"merge.inputs=[{BEFORE},{BEFORE}x]"],
    "nomic_embed_v2/ablation_mining": [f"negatives.path={MINED}"],
}
"""What configs leave to be given."""


@cache
def at_full_scale(name: str) -> Config:
    """A paper's config as it is published, its predecessors taken to be there."""
    earlier: Any = compose([])
    runs = {str(Path(path).resolve()): earlier for path in (BEFORE, f"{BEFORE}x")}
    runs[str(Path(MINED).resolve())] = compose(["stage=mine"])
    with planned(runs):
        return compose([f"+paper={name}", *WANTED.get(name, [])])


def at(config: Any, dotted: str) -> Any:
    """The value at a dotted key."""
    for part in dotted.split("."):
        config = config[part] if isinstance(config, dict) else getattr(config, part)
    return config
