"""One training run: from a checkpoint, if there is one, to the last step."""

from __future__ import annotations

import logging
import warnings
from functools import partial
from typing import TYPE_CHECKING, Literal

import lightning as L
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from embedexp import batching, loss, mask_schedule, negatives
from embedexp.batching.collate import collate
from embedexp.batching.sources import sources_of
from embedexp.config.resources import resources

from . import strategy
from .averaging import Averaging, weights_of
from .contrastive import ContrastiveObjective
from .dynamic import Deferred, DynamicTraining
from .interrupt import InterruptedRunError
from .loader import loader
from .module import EmbeddingModule
from .recording import Recording
from .saving import Checkpointing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from embedexp.batching.collate import Choose, TrainingBatch
    from embedexp.config import Config
    from embedexp.data.tokenise import TokenisedCorpus
    from embedexp.embedding import Embedder

    from .contrastive import Observe
    from .interrupt import StopRequest
    from .objective import Batch, Objective
    from .progress import TrainingProgress
    from .recording import Recorder
    from .world import World

# Weights themselves in bf16 are `backbone.dtype`; Lightning's own option would also make bf16 the
# default of everything that a loss makes.
_PRECISION: dict[str, Literal["32-true", "bf16-mixed"]] = {
    "float32": "32-true",
    "bf16_mixed": "bf16-mixed",
}
log = logging.getLogger(__name__)
# Lightning's hints about accelerators and other products are no part of a run's output.
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


def batch_maker(
    config: Config,
    corpus: TokenisedCorpus,
    rank: int = 0,
    world: int = 1,
    *,
    choose: Choose | None = None,
) -> Callable[[int], TrainingBatch]:
    """The batch of a step with the tokens of one rank, a function of (seed, step).

    With `choose`, its hard negatives also depend on what that answers at the time.
    """
    plan = batching.build(config.batching, sources_of(corpus, config.batching), config.seed)
    return lambda step: collate(corpus, plan(step), rank, world, choose)


def objective_of(
    config: Config, embedder: Embedder, observe: Observe | None = None
) -> ContrastiveObjective:
    """The embedder with its loss; `observe` sees each step's vectors."""
    return ContrastiveObjective(
        embedder, loss.build(config.loss), config.routing, config.training.chunk_tokens, observe
    )


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
    world: World,
) -> None:
    """Train `embedder` in place on pairs, from the newest checkpoint in `folder` if there is one.

    With `compute=fsdp` it stays in shards.

    Raises:
        InterruptedRunError: when a stop was asked for; everything done is in the last checkpoint.
        NonFiniteLossError: when the loss is NaN or infinite.
    """
    changing = negatives.build(config.negatives, corpus)
    dynamic = None if changing is None else DynamicTraining(changing)
    objective = objective_of(config, embedder, None if dynamic is None else dynamic.observe)
    train(
        config,
        embedder,
        objective,
        partial(batch_maker, config, corpus, choose=None if changing is None else changing.choose),
        folder=folder,
        recorder=recorder,
        stop=stop,
        screen=screen,
        track=track,
        world=world,
        dynamic=dynamic,
    )


def train(
    config: Config,
    embedder: Embedder,
    objective: Objective,
    batches: Callable[[int, int], Callable[[int], Batch]],
    *,
    folder: Path,
    recorder: Recorder,
    stop: StopRequest,
    screen: TrainingProgress | None,
    track: Callable[[dict[str, float], int], None],
    world: World,
    dynamic: DynamicTraining | None = None,
) -> None:
    """Train what `objective` holds in place, from the newest checkpoint in `folder` if any.

    All ranks of `world` call this together; the first one records. `batches(rank, world)` gives a
    rank's view of each step's global batch. `embedder` is the part of the objective whose routers
    are balanced. `dynamic` negatives are those that `batches` asks. With merge=ema or last_k the
    weights are their average in the end, while the last checkpoint has both.

    Raises:
        InterruptedRunError: when a stop was asked for; everything done is in the last checkpoint.
        NonFiniteLossError: when the loss is NaN or infinite.
        UserError: there are checkpoints, and none can be read.
    """
    total, option = config.training.steps, config.compute
    progress = mask_schedule.build(config.mask_schedule).progress
    strategy.economise(embedder, recompute=option.activation_checkpointing, compiled=option.compile)
    module = EmbeddingModule(config, objective, embedder, progress, dynamic)
    checkpointing = Checkpointing(
        folder,
        config.training.checkpoint_every,
        config.training.keep_checkpoints,
        config.training.keep_best,
        stop,
        world,
    )
    callbacks: list[L.Callback] = [checkpointing]
    if module.average is not None:
        callbacks.insert(0, Averaging(module.average))
    if world.first:
        callbacks.insert(0, Recording(recorder, screen, config.training.log_every, track))
    with warnings.catch_warnings():
        # Lightning advises on loaders and loggers that this run sets on purpose.
        warnings.filterwarnings("ignore", module="lightning.*")
        trainer = L.Trainer(
            max_steps=total,
            accelerator="gpu" if resources(option).gpu else "cpu",
            devices=world.local_size,
            num_nodes=world.nodes,
            strategy=strategy.build(
                strategy.kind_of(option, world.size), embedder.device, data_parallel=world.size
            ),
            precision=_PRECISION[config.training.precision],
            plugins=[LightningEnvironment() if world.size == 1 else TorchElasticEnvironment()],
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            default_root_dir=folder,
        )
        module.train()
        make = batches(world.rank, world.size)
        if dynamic is not None:
            module.make = make
        trainer.fit(
            module,
            loader(
                make if dynamic is None else Deferred,
                total,
                lambda: trainer.global_step,
                workers=option.workers,
            ),
        )
    if trainer.global_step < total:
        stop.check()
        raise InterruptedRunError(f"stopped after step {trainer.global_step}")
    if module.average is not None:
        module.average.put_into(weights_of(module))
