"""Small models to merge, written once, and tools to look into them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import embedexp

SMALL = [
    "backbone=tiny",
    "backbone.architecture.hidden_size=32",
    "backbone.architecture.intermediate_size=48",
    "backbone.architecture.num_attention_heads=2",
    "embedding.prompts.search_query='query: '",
    "loss=infonce",
]


def build(folder, *more, seed=0, moved=0.0):
    """Write a small model; `moved` shifts all its weights by noise of its seed."""
    config = embedexp.compose([*SMALL, *more])  # the same seed: one origin
    embedder = embedexp.build_embedder(config)
    if moved:
        generator = torch.Generator().manual_seed(100 + seed)
        with torch.no_grad():
            for parameter in embedder.parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter += moved * noise.to(parameter.dtype)
    embedder.save(folder)
    return str(folder)


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def rewrite(folder, change):
    """Change the tensors of a model in place."""
    path = Path(folder) / "model.safetensors"
    state = load_file(path)
    change(state)
    save_file(state, path, metadata={"format": "pt"})


@pytest.fixture(scope="session")
def dense(tmp_path_factory):
    """Three dense models that have moved from one origin, and the origin."""
    folder = tmp_path_factory.mktemp("dense")
    moved = [build(folder / f"m{i}", seed=i, moved=0.02) for i in range(3)]
    return [*moved, build(folder / "origin")]


@pytest.fixture(scope="session")
def moe(tmp_path_factory):
    """Two token-routed models whose experts have moved apart."""
    folder = tmp_path_factory.mktemp("moe")
    routing = ("routing=moe", "routing.num_experts=4", "routing.placement=every")
    return [build(folder / f"m{i}", *routing, seed=i, moved=0.02) for i in range(2)]


@pytest.fixture(scope="session")
def mote(tmp_path_factory):
    """A task-routed model whose experts differ."""
    return build(tmp_path_factory.mktemp("mote") / "m", "routing=mote", seed=5, moved=0.05)
