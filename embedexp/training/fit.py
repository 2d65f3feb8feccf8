"""One training run: from a checkpoint, if there is one, to the last step."""

from __future__ import annotations

import logging
import warnings
from functools import partial
from typing import TYPE_CHECKING, Literal

import lightning as L
from lightning.fabric.plugins.environments.lightning import LightningEnvironment

from embedexp import batching, loss, mask_schedule, routing
from embedexp.batching.collate import collate
from embedexp.batching.plan import Source

from . import checkpoint
from .interrupt import InterruptedRunError
from .loader import loader
from .module import EmbeddingModule
from .recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from embedexp.batching.collate import TrainingBatch
    from embedexp.config import Config
    from embedexp.data.tokenise import TokenisedCorpus
    from embedexp.embedding import Embedder

    from .interrupt import StopRequest
    from .progress import TrainingProgress
    from .recording import Recorder

_PRECISION: dict[str, Literal["32-true", "bf16-mixed"]] = {
    "float32": "32-true",
    "bf16_mixed": "bf16-mixed",
}
log = logging.getLogger(__name__)
# Lightning's hints about accelerators and other products are no part of a run's output.
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


def batch_maker(config: Config, corpus: TokenisedCorpus) -> Callable[[int], TrainingBatch]:
    """The batch of a step, a pure function of (seed, step)."""
    sources = [
        Source(data.name, data.task, len(data.query_ids), data.weight) for data in corpus.datasets
    ]
    plan = batching.build(config.batching, sources, config.seed)
    return lambda step: collate(corpus, plan(step))


def fit(
    config: Config,
    embedder: Embedder,
    corpus: TokenisedCorpus,
    *,
    folder: Path,
    recorder: Recorder,
    stop: StopRequest,
    screen: TrainingProgress | None,
    track: Callable[[dict[str, float], int], None],
) -> None:
    """Train `embedder` in place, from the newest checkpoint in `folder` if there is one.

    Raises:
        InterruptedRunError: when a stop was asked for; everything done is in the last checkpoint.
        NonFiniteLossError: when the loss is NaN or infinite.
    """
    total = config.training.steps
    module = EmbeddingModule(
        config,
        embedder,
        loss.build(config.loss),
        mask_schedule.build(config.mask_schedule).progress,
        partial(routing.auxiliary_terms, config.routing),
    )
    start = checkpoint.latest(folder)
    first_step = checkpoint.step_of(start) if start else 0
    if start:
        log.info("resuming from %s", start)
    recorder.metrics.truncate(first_step)
    with warnings.catch_warnings():
        # Lightning advises on loaders and loggers that this run sets on purpose.
        warnings.filterwarnings("ignore", module="lightning.*")
        trainer = L.Trainer(
            max_steps=total,
            accelerator=config.compute.name,
            devices=1,
            precision=_PRECISION[config.training.precision],
            plugins=[LightningEnvironment()],
            callbacks=[
                Recording(recorder, screen, config.training.log_every, track),
                checkpoint.Checkpointing(
                    folder,
                    config.training.checkpoint_every,
                    config.training.keep_checkpoints,
                    stop,
                ),
            ],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            default_root_dir=folder,
        )
        batches = loader(
            batch_maker(config, corpus),
            total,
            lambda: max(first_step, trainer.global_step),
            workers=config.compute.workers,
        )
        module.train()
        trainer.fit(module, batches, ckpt_path=start, weights_only=True)
    if trainer.global_step < total:
        stop.check()
        raise InterruptedRunError(f"stopped after step {trainer.global_step}")
