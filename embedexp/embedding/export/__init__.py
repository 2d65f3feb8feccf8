"""Formats in which a model leaves: one module per format, each with `write(embedder, folder)`.

Importing this imports no torch, so that the command line can name them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal

from embedexp.config.errors import UserError, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.embedding import Embedder

FORMATS = ("sentence_transformers", "huggingface", "onnx", "nomic")
DTYPES = ("float32", "float16", "bfloat16")

DType = Literal["float32", "float16", "bfloat16"]


def check(format: str, dtype: str | None) -> None:
    """Whether there is such a format, and whether it is written in that type.

    Raises:
        UserError: there is not, or it is not.
    """
    if format not in FORMATS:
        close = nearest(format, FORMATS)
        raise UserError(
            f"there is no format {format}",
            hint=f"did you mean {close}?" if close else f"choose from: {', '.join(FORMATS)}",
        )
    if dtype is not None and dtype not in DTYPES:
        raise UserError(f"there is no dtype {dtype}", hint=f"choose from: {', '.join(DTYPES)}")
    if format == "onnx" and dtype not in (None, "float32"):
        raise UserError(
            f"format onnx is written in float32, not {dtype}",
            hint="leave --dtype out; onnxruntime's own tools quantise the file",
        )


def write(embedder: Embedder, format: str, folder: Path) -> None:
    """Write an embedder into an existing folder in one of `FORMATS`, without a model card.

    Raises:
        UserError: the format cannot express the model; names the first reason.
    """
    import_module(f"{__name__}.{format}").write(embedder, folder)
