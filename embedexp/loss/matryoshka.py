"""A loss at several widths of the same vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .output import GAUGES, LossOutput
from .precision import unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embedexp.config.schema.loss import Matryoshka as Option


class Matryoshka(nn.Module):
    """The weighted sum of a loss over prefixes of its vectors, each scaled to length 1."""

    def __init__(
        self,
        loss: Callable[..., Tensor | LossOutput],
        widths: Sequence[int],
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.widths = tuple(widths)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(self.widths)
        if not self.widths or min(self.widths) < 1 or len(set(self.widths)) < len(self.widths):
            raise ValueError(f"widths must be distinct and at least 1, not {list(self.widths)}")
        if len(self.weights) != len(self.widths):
            raise ValueError(f"{len(self.widths)} widths, but {len(self.weights)} weights")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The sum; what the loss returns of each width is in its terms, `name_width`.

        The first tensor is of vectors `[..., d]`. All floating tensors of at least two dimensions
        and that last dimension d are cut, targets of a regression on vectors included.

        Raises:
            ValueError: a width is above d.
        """
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        full = given[0].shape[-1]
        if max(self.widths) > full:
            raise ValueError(f"width {max(self.widths)} is more than the {full} dimensions there")

        def cut(value: Any, width: int) -> Any:
            is_vectors = isinstance(value, Tensor) and value.is_floating_point()
            if not is_vectors or value.ndim < 2 or value.shape[-1] != full:
                return value
            return unit(value[..., :width])

        total: Any = 0.0
        terms: dict[str, Tensor] = {}
        plain = False
        for width, weight in zip(self.widths, self.weights, strict=True):
            output = self.loss(
                *(cut(value, width) for value in args),
                **{name: cut(value, width) for name, value in kwargs.items()},
            )
            plain = isinstance(output, Tensor)
            value = output if isinstance(output, Tensor) else output.total
            total = total + weight * value
            if isinstance(output, LossOutput):
                for name, term in output.terms.items():
                    terms[name if name in GAUGES else f"{name}_{width}"] = term
        return total if plain else LossOutput(total, terms)


def matryoshka(
    loss: Callable[..., Tensor | LossOutput],
    widths: Sequence[int],
    weights: Sequence[float] | None = None,
) -> Matryoshka:
    """`loss` summed over prefixes of its vectors: sum over w of weight_w loss(x[..., :w] / |.|).

    `loss` is a function or module of one or more tensors of vectors, such as `info_nce` with its
    other arguments, that returns a scalar or a `LossOutput`. `widths` may stand in any order;
    `weights` are 1 each unless given.

    Raises:
        ValueError: widths that are none, double or below 1, or weights of another number.

    Source: Kusupati et al. 2022, with the sum and the renormalised prefixes of
    sentence-transformers.
    """
    return Matryoshka(loss, widths, weights)


def wrap(loss: nn.Module, option: Option) -> nn.Module:
    """The loss at the option's widths; the loss itself where it names none."""
    if option.widths is None:
        return loss
    return Matryoshka(loss, option.widths, option.weights)
