"""The processes that train one model together, and how they meet."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

# torch is imported where ranks meet: asking which rank one is must cost nothing.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.distributed import ProcessGroup

Result = TypeVar("Result")

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun, and every launcher here, tells a process about itself."""

# Others wait as long as one rank scores a model or reads its data, however long that takes.
_PATIENCE = timedelta(days=30)


@dataclass(frozen=True)
class World:
    """This process among all: `rank` of `size`, on its machine `local_rank` of `local_size`."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    patient: ProcessGroup | None = None

    @classmethod
    def of_environment(cls) -> World:
        """As the launcher has said in `VARIABLES`; alone without them."""
        if any(name not in os.environ for name in VARIABLES):
            return cls()
        rank, local_rank, size, local_size = (int(os.environ[name]) for name in VARIABLES[:4])
        return cls(rank, size, local_rank, local_size)

    @property
    def first(self) -> bool:
        """Whether this process writes what there is to be written."""
        return self.rank == 0

    @property
    def nodes(self) -> int:
        """Machines."""
        return self.size // self.local_size

    @contextmanager
    def met(self, *, gpu: bool, listening: int | None = None) -> Iterator[World]:
        """The same world with its process group, which lasts as long as the block.

        `listening` is a socket that rank 0 has bound to MASTER_PORT already. Collectives on CPU
        tensors go by gloo, on a GPU's by nccl.
        """
        if self.size == 1:
            yield self
            return
        import torch
        from torch import distributed
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        os.environ["GROUP_RANK"] = str(self.rank // self.local_size)  # Lightning asks for it
        if gpu:
            torch.cuda.set_device(self.local_rank)
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(address, port, self.size, self.first, master_listen_fd=listening)
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if gpu else "gloo",
            store=store,
            rank=self.rank,
            world_size=self.size,
        )
        try:
            patient = distributed.new_group(backend="gloo", timeout=_PATIENCE)
            yield World(self.rank, self.size, self.local_rank, self.local_size, patient)
        finally:
            distributed.destroy_process_group()

    def wait(self) -> None:
        """Go on when every rank has come here."""
        if self.patient is not None:
            from torch import distributed

            distributed.barrier(group=self.patient)

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set on any rank; the same answer on all."""
        if self.patient is None:
            return flag
        import torch
        from torch import distributed

        value = torch.tensor(int(flag))
        distributed.all_reduce(value, distributed.ReduceOp.MAX, group=self.patient)
        return bool(value)

    def tell(self, value: Result | None) -> Result | None:
        """Rank 0's `value`, on every rank."""
        if self.patient is None:
            return value
        from torch import distributed

        box = [value]
        distributed.broadcast_object_list(box, src=0, group=self.patient)
        return box[0]

    def in_turn(self, work: Callable[[], Result]) -> Result:
        """What `work` returns: on one rank of each machine first, so that others find its files."""
        if self.local_rank == 0:
            done = work()
            self.wait()
            return done
        self.wait()
        return work()
