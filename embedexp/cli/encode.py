"""Vectors of many texts, from a file or a pipe to a file or a folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, shorten

from . import OK
from .commands import run_parser
from .hand_over import model_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.embedding import Embedder

TASKS = ("search_query", "search_document", "classification", "clustering")


def encode(arguments: Sequence[str]) -> int:
    """Encode texts; the same command again goes on where it stopped."""
    given = _given(arguments)
    from embedexp.embedding.bulk import encode_all, reading
    from embedexp.embedding.encoding import default_role
    from embedexp.embedding.foreign import locate

    reading.check(given.file, given.column)
    folder = locate(model_of(given.model, given.runs))
    from embedexp.config.sign import model_hash

    settings: dict[str, Any] = {
        "model": model_hash(folder),
        "task": given.task,
        "role": given.role or default_role(given.task),
        "width": given.width,
        "dtype": given.dtype,
        "shard_size": given.shard_size,
    }

    def load() -> Embedder:
        from embedexp.embedding import load as read

        return read(folder, _device(given.device))

    logging.basicConfig(format="%(message)s")
    logging.getLogger("embedexp").setLevel(logging.INFO)
    found = encode_all(
        reading.texts(given.file, given.column),
        load,
        given.to,
        settings,
        format=given.format,
        total=reading.count(given.file),
    )
    print(f"vectors  {given.to}  ({found['rows']:,} texts, {len(found['pieces'])} pieces)")
    return OK


def _device(name: str | None) -> str:
    """The device asked for, or the best there is.

    Raises:
        UserError: torch cannot use it here.
    """
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"--device {name} can't be used here: {shorten(reason, 100)}",
            hint="choose cpu, cuda or cuda:NUMBER, or leave it out",
        ) from None
    return name


def _given(arguments: Sequence[str]) -> Any:
    from embedexp.embedding.bulk import SHARD_SIZE

    parser = run_parser("encode")
    parser.add_argument("model")
    parser.add_argument("file", nargs="?", default="-")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--column")
    parser.add_argument("--task", default="search_document", choices=TASKS)
    parser.add_argument("--role", choices=("query", "document"))
    parser.add_argument("--width", type=int)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16"))
    parser.add_argument("--shard-size", type=int, default=SHARD_SIZE)
    parser.add_argument("--format", choices=("npy", "parquet"))
    parser.add_argument("--device")
    # `-` alone is a file's name, which argparse takes for one too.
    given = parser.parse_intermixed_args(list(arguments))
    if given.shard_size < 1:
        raise UserError(f"--shard-size {given.shard_size} is no size", hint="1 or more texts")
    return given
