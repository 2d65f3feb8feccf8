"""Per-step metrics: to the run's own files first, then to a tracker and the screen."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import lightning as L

from embedexp.routing import router_statistics

from .flops import ModelFlops, memory_gib, peak_flops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .module import EmbeddingModule
    from .objective import Batch
    from .progress import TrainingProgress

_WINDOW = 20  # steps over which the rate is taken: long enough to be steady, short enough to follow


class MetricsFile(Protocol):
    """Lines of metrics, in the order of steps."""

    def append(self, values: Mapping[str, Any]) -> None:
        """Write one line."""
        ...

    def truncate(self, step: int) -> None:
        """Forget the lines after `step`."""
        ...


class Recorder(Protocol):
    """Where training writes what happens; a run directory is one."""

    @property
    def metrics(self) -> MetricsFile:
        """The per-step metrics."""
        ...

    def update(
        self,
        *,
        step: int | None = None,
        total_steps: int | None = None,
        rate: float | None = None,
        eta_seconds: float | None = None,
    ) -> None:
        """Say how far the run is."""
        ...


class Recording(L.Callback):
    """Measures steps and tells the recorder, the tracker and the screen.

    `samples_per_second` counts examples (a query with its positive and hard negatives) over the
    last 20 steps; `tokens_per_second` real tokens; `model_flops_per_second` what the model's
    arithmetic takes of all ranks together, and `mfu` its share of what their GPUs could do, where
    that is known. `memory_gib` is the peak of this rank's memory so far. What a step's batch says
    of itself, such as `tokens` and `hard_negatives` a query, stands beside. `router` holds the
    statistics of learned routers, and in the last line `load`, each expert's share since the first
    step, layer by layer. `negatives` tells of dynamic ones since the line before: how many were
    judged, replaced and without candidates, and their mean cosine.
    """

    def __init__(
        self,
        recorder: Recorder,
        screen: TrainingProgress | None,
        every: int,
        track: Callable[[dict[str, float], int], None],
    ) -> None:
        self.recorder, self.screen, self.every, self.track = recorder, screen, every, track
        self._times: deque[tuple[float, int, int, float]] = deque(maxlen=_WINDOW + 1)
        self._flops: ModelFlops | None = None
        self._peak: float | None = None  # operations a second of all ranks' devices
        self._negatives: list[dict[str, float]] = []  # of the steps since the last line

    def on_train_start(
        self,
        trainer: L.Trainer,
        pl_module: EmbeddingModule,  # type: ignore[override]
    ) -> None:
        """Start the clock, and forget what was recorded after the checkpoint gone on from."""
        self.recorder.metrics.truncate(trainer.global_step)
        config = pl_module.config
        self._flops = ModelFlops.of(config)
        float32 = config.training.precision == config.backbone.dtype == "float32"
        peak = peak_flops(pl_module.device, bf16=not float32)
        self._peak = None if peak is None else peak * trainer.world_size
        self._times.append((time.monotonic(), 0, 0, 0.0))
        if self.screen is not None:
            self.screen.start(trainer.global_step)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: EmbeddingModule,  # type: ignore[override]
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Record a finished step."""
        step, total = trainer.global_step, int(trainer.max_steps)
        figures = batch.figures()
        operations = 0.0 if self._flops is None else self._flops.of_batch(batch)
        self._times.append((time.monotonic(), len(batch), figures["tokens"], operations))
        seconds = self._times[-1][0] - self._times[0][0]
        _, examples, tokens, operations = (
            sum(column) for column in zip(*list(self._times)[1:], strict=True)
        )
        rate = examples / max(seconds, 1e-9)
        eta = (total - step) * seconds / max(len(self._times) - 1, 1)
        if pl_module.negatives is not None:
            self._negatives.append(pl_module.negatives)
        if step % self.every and step != total:
            return
        terms = {name: float(value) for name, value in pl_module.latest.items()}
        loss, norm = terms.pop("loss"), terms.pop("gradient_norm")
        line: dict[str, Any] = {
            "step": step,
            "loss": loss,
            "terms": terms,
            "gradient_norm": norm,
            "learning_rate": pl_module.learning_rate,
            "samples_per_second": rate,
            "tokens_per_second": tokens / max(seconds, 1e-9),
            "model_flops_per_second": operations / max(seconds, 1e-9),
            "memory_gib": round(memory_gib(pl_module.device), 3),
            **figures,
        }
        if self._peak is not None:
            line["mfu"] = line["model_flops_per_second"] / self._peak
        router = {} if pl_module.router is None else router_statistics(pl_module.router)
        if router:
            line["router"] = dict(router)
            if step == total:  # once: for each layer and expert it is too much for every step
                line["router"]["load"] = pl_module.router_load.shares()
        replacement = _since_last_line(self._negatives)
        if replacement:
            line["negatives"] = replacement
        self._negatives.clear()
        self.recorder.metrics.append(line)
        self.recorder.update(step=step, total_steps=total, rate=rate, eta_seconds=eta)
        flat = {"loss": loss, **{f"terms/{k}": v for k, v in terms.items()}}
        flat |= {f"router/{k}": v for k, v in router.items()}
        flat |= {f"negatives/{k}": v for k, v in replacement.items()}
        flat |= {
            k: v
            for k, v in line.items()
            if k not in ("step", "loss", "terms", "router", "negatives", "tasks")
        }
        self.track(flat, step)
        if self.screen is not None:
            self.screen.show(step, loss, rate, eta, tokens / max(seconds, 1e-9))

    def teardown(self, *_: Any, **__: Any) -> None:
        """Leave the screen as it was, also after an error."""
        if self.screen is not None:
            self.screen.close()


def _since_last_line(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Counts of several steps, and the mean over steps of what is no count."""
    if not steps:
        return {}
    found = {key: sum(step[key] for step in steps) for key in ("judged", "replaced", "exhausted")}
    hardness = [step["hardness"] for step in steps if "hardness" in step]
    return found | ({"hardness": sum(hardness) / len(hardness)} if hardness else {})
