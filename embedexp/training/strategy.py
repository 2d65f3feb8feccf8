"""How a model is spread over ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from torch.distributed.fsdp import fully_shard

from embedexp.backbone.families import family_of

if TYPE_CHECKING:
    import torch
    from lightning.pytorch.strategies import Strategy
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

Kind = Literal["single", "ddp", "fsdp"]


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
        # In one file, which any number of ranks and any strategy can go on from.
        save_distributed_checkpoint=False,
        process_group_backend=backend,
    )


def shard(objective: nn.Module, embedder: nn.Module, mesh: DeviceMesh) -> None:
    """Shard all weights over the data-parallel ranks of `mesh`, in place, with FSDP2.

    Units are the blocks, the embedder around them, and each other child of `objective` that has
    weights, such as a loss with a learnable temperature: none stays outside of a unit.
    """
    names = mesh.mesh_dim_names or ()
    options: dict[str, Any] = {"mesh": mesh["data_parallel"] if "data_parallel" in names else mesh}
    model: Any = embedder.model
    for block in model.get_submodule(family_of({"model_type": model.config.model_type}).blocks):
        fully_shard(block, **options)
    fully_shard(model, **options)
    for child in objective.children():
        if child is not embedder and any(True for _ in child.parameters()):
            fully_shard(child, **options)
