"""How a model is spread over ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from embedexp.backbone.families import family_of
from embedexp.config.schema.compute import Fsdp

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from lightning.pytorch.strategies import Strategy
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

    from embedexp.config.schema.compute import Compute

Kind = Literal["single", "ddp", "fsdp"]


def kind_of(compute: Compute, size: int) -> Kind:
    """The kind of strategy for `size` ranks; one alone needs neither copies nor shards."""
    if size == 1:
        return "single"
    return "fsdp" if isinstance(compute, Fsdp) else "ddp"


def build(kind: Kind, device: torch.device, *, data_parallel: int = 1) -> Strategy:
    """The Lightning strategy: one process, replicas (`ddp`), or weights in shards (`fsdp`).

    `data_parallel` ranks share a batch. Sizes are always said: left to itself, Lightning splits
    matrices over all devices of a node.
    """
    if kind == "single":
        return SingleDeviceStrategy(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if kind == "ddp":
        return DDPStrategy(process_group_backend=backend)
    return ModelParallelStrategy(
        data_parallel_size=data_parallel,
        tensor_parallel_size=1,
        process_group_backend=backend,
    )


def mesh_of(mesh: DeviceMesh, copies: int) -> DeviceMesh:
    """The mesh to shard over: all data-parallel ranks of `mesh`, or as many in each of the copies.

    Gradients are reduced inside each copy first, a node's own ranks, and then between them.
    """
    names = mesh.mesh_dim_names or ()
    flat = mesh["data_parallel"] if "data_parallel" in names else mesh
    if copies == 1:
        return flat
    shape = (copies, flat.size() // copies)
    return init_device_mesh(mesh.device_type, shape, mesh_dim_names=("replicate", "shard"))


def blocks_of(embedder: nn.Module) -> Iterator[nn.Module]:
    """The transformer's layers, which are the units of sharding, compiling and recomputing."""
    model: Any = embedder.model
    yield from model.get_submodule(family_of({"model_type": model.config.model_type}).blocks)


def economise(embedder: nn.Module, *, recompute: bool, compiled: bool) -> None:
    """Make blocks forget their activations until the backward pass, or compile them, in place.

    Names of parameters stay. Recomputing replays dropout, so gradients stay the same.
    """
    for block in blocks_of(embedder):
        if recompute:
            checkpoint(block)
        if compiled:
            block.compile(dynamic=True)


def shard(objective: nn.Module, embedder: nn.Module, mesh: DeviceMesh) -> None:
    """Shard all weights over the ranks of `mesh`, in place, with FSDP2.

    Units are the blocks, the backbone around them, the projection after it, and each other child
    of `objective` that has weights, such as a loss with a learnable temperature: none stays outside
    of a unit.
    """
    options: dict[str, Any] = {"mesh": mesh}
    model: Any = embedder.model
    projection: Any = embedder.projection
    for block in blocks_of(embedder):
        fully_shard(block, **options)
    fully_shard(model, **options)
    if projection is not None:
        fully_shard(projection, **options)
    for child in objective.children():
        if child is not embedder and any(True for _ in child.parameters()):
            fully_shard(child, **options)
