"""Processes in one group that do what they are told, call by call."""

from __future__ import annotations

import gc
import os
import traceback
from datetime import timedelta
from multiprocessing import connection, get_context
from tempfile import TemporaryDirectory

import torch
from torch import distributed

PATIENCE = 120  # seconds without an answer: a collective operation hangs
# One process imports these, and all ranks are forked from it.
PRELOADED = [
    "transformers.models.modernbert.modeling_modernbert",
    "transformers.models.llama.modeling_llama",
    "tests.distributed.preloaded",
]


class Ranks:
    """`world` ranks; they start with the first call, and anew after one that failed."""

    def __init__(self, world):
        self.world = world
        self._workers = []

    def call(self, function, *arguments):
        """What `function(rank, world, *arguments)` returns on each rank, in their order.

        Raises:
            AssertionError: with the traceback of the first rank that failed, or the ranks that
                never answered.
        """
        if not self._workers:
            self._start()
        pipes = [pipe for _, pipe in self._workers]
        try:
            for pipe in pipes:
                pipe.send((function, arguments))
        except OSError:
            self.stop()
            raise AssertionError("a rank died before it was asked") from None
        answers = {}
        while len(answers) < self.world:
            waiting = [pipe for rank, pipe in enumerate(pipes) if rank not in answers]
            for pipe in connection.wait(waiting, PATIENCE) or [None]:
                rank, answer, error = _answer(pipe, pipes)
                if error is not None:
                    missing = sorted(set(range(self.world)) - answers.keys())
                    self.stop()
                    raise AssertionError(error or f"ranks {missing} do not answer")
                answers[rank] = answer
        return [answers[rank] for rank in range(self.world)]

    def stop(self):
        """End the processes."""
        for process, _ in self._workers:
            process.kill()
            process.join()
        if self._workers:
            self._folder.cleanup()
        self._workers = []

    def _start(self):
        context = get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._folder = TemporaryDirectory()
        for rank in range(self.world):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, self.world, self._folder.name, there), daemon=True
            )
            process.start()
            there.close()
            self._workers.append((process, here))


def _answer(pipe, pipes):
    """Rank, answer, and error of the rank that a pipe leads to; an empty error for no pipe."""
    if pipe is None:
        return None, None, ""
    rank = pipes.index(pipe)
    try:
        return rank, *pipe.recv()
    except (EOFError, OSError):
        return rank, None, f"rank {rank} died"


def _serve(rank, world, folder, pipe):
    """A rank's life."""
    torch.set_num_threads(1)
    gc.freeze()  # what is imported is never garbage, and takes a second to go through
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", WORLD_SIZE=str(world))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=PATIENCE),
    )
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((function(rank, world, *arguments), None))
        except Exception:
            pipe.send((None, f"rank {rank}: {traceback.format_exc()}"))
