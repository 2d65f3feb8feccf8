"""The softmax of InfoNCE in strips of rows: value and gradients in one pass, no n x n matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .precision import at_least_float32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .false_negatives import Exclusion, Reversible

ELEMENTS = {"cpu": 2**21, "other": 2**24}
"""Numbers in a strip of scores, by device: 8 MiB in float32 on a CPU, 64 MiB elsewhere."""

FEWEST_ROWS = 16


@dataclass(frozen=True)
class Tower:
    """Vectors `start` to `stop` of one of the tensors that the loss is taken of."""

    source: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def of(self, tensors: Sequence[Tensor]) -> Tensor:
        """These rows of the tensor that they are in."""
        return tensors[self.source][self.start : self.stop]


@dataclass(frozen=True)
class Block:
    """Row i of `rows` (anchors or targets) against every vector of `columns`.

    Left out are candidates that an exclusion names, and number i itself with `diagonal`.

    Two directions may hold the same scores, one by rows and the other by columns. The block of
    the first then leaves its gradient to that of the second (`deferred`), which has the first's
    exclusions in `reverse`: four products of matrices in place of six.
    """

    rows: Tower
    columns: Tower
    exclusions: Sequence[Exclusion] = ()
    diagonal: bool = True
    deferred: bool = False
    reverse: Sequence[Reversible] | None = None


@dataclass(frozen=True)
class OwnBlock:
    """Anchor i against the vectors `table[i]` of `columns`, where `keep [n, h]` (bool) says so."""

    columns: Tower
    table: Tensor
    keep: Tensor


@dataclass(frozen=True)
class Direction:
    """A softmax per anchor: its target against all that the blocks hold."""

    anchors: Tower
    targets: Tower
    blocks: tuple[Block, ...]
    own: OwnBlock | None = None


def softmax_loss(
    directions: Sequence[Direction],
    sources: Sequence[Tensor],
    temperature: Tensor,
    margin: float | None,
) -> Tensor:
    """Mean over directions and anchors of -log(softmax of the target's cosine / temperature).

    `sources` are tensors `[m, d]` of one width, of any length of vectors; `temperature` has one
    element. Candidates whose cosine is above the target's by more than `margin` are left out.
    Memory beyond the gradients is one strip of rows, or two where directions share scores, whatever
    the batch; gradients are computed in the forward pass and only scaled in the backward pass,
    which is differentiable once. A direction with a deferred block comes before the one that has it
    in `reverse`.
    """
    value: Tensor = _SoftmaxLoss.apply(  # type: ignore[no-untyped-call]
        tuple(directions), margin, torch.is_grad_enabled(), temperature, *sources
    )
    return value


class _SoftmaxLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        directions: tuple[Direction, ...],
        margin: float | None,
        differentiable: bool,
        temperature: Tensor,
        *sources: Tensor,
    ) -> Tensor:
        strips = _Strips(sources, temperature, margin, differentiable and any(ctx.needs_input_grad))
        for direction in directions:
            strips.add(direction, 1 / (len(directions) * len(direction.anchors)))
        ctx.dtypes = [source.dtype for source in sources]
        ctx.temperature_shape, ctx.temperature_dtype = temperature.shape, temperature.dtype
        if strips.gradients:
            ctx.save_for_backward(strips.temperature_gradient(), *strips.finished())
        return strips.value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        slope, *gradients = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        temperature = (slope * grad_output).to(ctx.temperature_dtype).view(ctx.temperature_shape)
        return (
            None,
            None,
            None,
            temperature if wanted[0] else None,
            *(
                (gradient * grad_output).to(dtype) if want else None
                for gradient, dtype, want in zip(gradients, ctx.dtypes, wanted[1:], strict=True)
            ),
        )


class _Strips:
    """Adds up value and gradients, strip by strip.

    Vectors are never normalised as a whole, which would copy them: rows are, strip by strip, and
    scores are divided by the columns' lengths.
    """

    def __init__(
        self,
        sources: Sequence[Tensor],
        temperature: Tensor,
        margin: float | None,
        differentiable: bool,
    ) -> None:
        wide = any(source.dtype == torch.float64 for source in sources)
        self.sources = [at_least_float32(s.double() if wide else s) for s in sources]
        self.inverse = [
            torch.linalg.vector_norm(source, dim=1).clamp_min_(1e-12).reciprocal_()
            for source in self.sources
        ]
        self.gradients = [torch.zeros_like(s) for s in self.sources] if differentiable else []
        self.scale = temperature.detach().to(self.sources[0].dtype).reshape(()).reciprocal()
        self.margin = margin
        self.value = self.sources[0].new_zeros(())
        self.slope = self.sources[0].new_zeros(())  # of the value along the scale
        # Of the direction with a deferred block, by anchor: log of weight / softmax's sum, limits.
        self.deferred: list[tuple[Tensor, Tensor | None]] = []

    def add(self, direction: Direction, weight: float) -> None:
        """Add `weight` times the sum over all anchors."""
        width = self.sources[0].shape[1]
        per_row = 4 * width + sum(len(block.columns) for block in direction.blocks)
        if direction.own is not None:
            per_row += direction.own.table.shape[1] * (width + 1)
        elements = ELEMENTS["cpu" if self.value.device.type == "cpu" else "other"]
        rows = max(FEWEST_ROWS, elements // per_row)
        for start in range(0, len(direction.anchors), rows):
            self._strip(direction, slice(start, min(start + rows, len(direction.anchors))), weight)

    def _strip(self, direction: Direction, rows: slice, weight: float) -> None:
        anchors, targets = self._unit(direction.anchors, rows), self._unit(direction.targets, rows)
        cosine = (anchors * targets).sum(1)
        target = cosine * self.scale
        limit = None if self.margin is None else (cosine + self.margin) * self.scale
        sides = [anchors if b.rows == direction.anchors else targets for b in direction.blocks]
        tiles = [
            self._scores(block, side, rows)
            for block, side in zip(direction.blocks, sides, strict=True)
        ]
        reverse = [self._reverse(b, t, rows) for b, t in zip(direction.blocks, tiles, strict=True)]
        for block, tile in zip(direction.blocks, tiles, strict=True):
            _leave_out(tile, block, [exclusion(rows) for exclusion in block.exclusions], rows)
        own = direction.own
        if own is not None:
            table, near = own.table[rows], own.columns.of(self.sources)[own.table[rows]]
            tile = torch.bmm(near, anchors[:, :, None])[:, :, 0]
            tile.mul_(own.columns.of(self.inverse)[table] * self.scale)
            tiles.append(tile.masked_fill_(~own.keep[rows], float("-inf")))

        top = target
        for tile in tiles:
            if limit is not None:
                tile.masked_fill_(tile > limit[:, None], float("-inf"))
            top = torch.maximum(top, tile.amax(1)) if tile.shape[1] else top
        others = torch.zeros_like(target)
        for tile in tiles:
            others += tile.sub_(top[:, None]).exp_().sum(1)
        total = (target - top).exp() + others
        self.value += (top - target + total.log()).sum() * weight
        if not self.gradients:
            return

        share = weight / total
        if any(block.deferred for block in direction.blocks):
            self.deferred.append((share.log() - top, limit))
        pull = -others * share  # of the target's own logit: its probability less one
        self.slope += (pull * cosine).sum()
        to_anchors, to_targets = pull[:, None] * targets, pull[:, None] * anchors
        for block, side, tile, other in zip(direction.blocks, sides, tiles, reverse, strict=False):
            if block.deferred:
                continue
            factor = share[:, None]
            if other is not None:
                tile, factor = other.addcmul_(tile, factor), torch.ones_like(factor)
            tile.mul_(block.columns.of(self.inverse))
            back = (tile @ block.columns.of(self.sources)).mul_(factor)
            self.slope += (back * side).sum()
            (to_anchors if side is anchors else to_targets).add_(back)
            block.columns.of(self.gradients).addmm_(tile.T, side * factor)
        if own is not None:
            tile = tiles[-1].mul_(own.columns.of(self.inverse)[table]).mul_(share[:, None])
            back = torch.bmm(tile[:, None], near)[:, 0]
            self.slope += (back * anchors).sum()
            to_anchors.add_(back)
            outer = (tile[:, :, None] * anchors[:, None]).flatten(0, 1)
            # Padding of a ragged table points at vector 0, with weight 0.
            own.columns.of(self.gradients).index_add_(0, table.flatten(), outer)
        for tower, back in ((direction.anchors, to_anchors), (direction.targets, to_targets)):
            back.mul_(tower.of(self.inverse)[rows, None])
            tower.of(self.gradients)[rows] += back

    def _unit(self, tower: Tower, rows: slice) -> Tensor:
        """Vectors of length 1."""
        return tower.of(self.sources)[rows] * tower.of(self.inverse)[rows, None]

    def _scores(self, block: Block, side: Tensor, rows: slice) -> Tensor:
        """Cosines over temperature `[rows, m]`."""
        tile = side @ block.columns.of(self.sources).T
        return tile.mul_(block.columns.of(self.inverse) * self.scale)

    def _reverse(self, block: Block, tile: Tensor, rows: slice) -> Tensor | None:
        """Weighted probabilities `[rows, m]` of the deferred direction, from the same scores."""
        if block.reverse is None or not self.gradients:
            return None
        logs, limits = zip(*self.deferred, strict=True)
        other = tile + torch.cat(logs)
        if self.margin is not None:
            other.masked_fill_(tile > torch.cat(limits), float("-inf"))
        _leave_out(other, block, [exclusion.reverse(rows) for exclusion in block.reverse], rows)
        return other.exp_()

    def finished(self) -> list[Tensor]:
        """The gradients of the sources: through the scale, and along the sphere only."""
        for source, inverse, gradient in zip(
            self.sources, self.inverse, self.gradients, strict=True
        ):
            rows = max(FEWEST_ROWS, ELEMENTS["cpu"] // max(1, source.shape[1]))
            for start in range(0, len(source), rows):
                here = slice(start, start + rows)
                along = (gradient[here] * source[here]).sum(1).mul_(inverse[here].square())
                gradient[here].addcmul_(source[here], along[:, None], value=-1)
                gradient[here].mul_(self.scale)
        return self.gradients

    def temperature_gradient(self) -> Tensor:
        """The value's slope along the temperature, which is 1 / scale."""
        return -self.slope * self.scale.square()


def _leave_out(tile: Tensor, block: Block, excluded: Sequence[Tensor], rows: slice) -> None:
    """-inf in `tile [rows, m]` where a candidate is no negative."""
    if excluded:
        first, *rest = excluded
        for more in rest:
            first |= more
        tile.masked_fill_(first, float("-inf"))
    if block.diagonal:
        tile[:, rows].diagonal().fill_(float("-inf"))
