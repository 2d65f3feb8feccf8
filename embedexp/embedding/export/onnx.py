"""A sentence-transformers folder with the model as an ONNX graph beside its weights.

`onnx/model.onnx` takes `input_ids` and `attention_mask` `[n, l]` (int64) and gives
`last_hidden_state [n, l, d]` and, pooled, cut and normalised, `sentence_embedding [n, width]`.
"""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from embedexp.backbone.families import family_of
from embedexp.backbone.quiet import quiet
from embedexp.config.errors import UserError

from .. import saving
from ..encoding import default_role, tokenize

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from embedexp.embedding import Embedder

FOLDER, NAME = "onnx", "model.onnx"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
TOLERANCE = 1e-5
"""Largest difference between a vector of the graph and the model's own, per dimension."""

PROBE = ("a", "a small furry animal", "the quick brown fox jumps over the lazy dog " * 4)


def write(embedder: Embedder, folder: Path) -> None:
    """Write the folder, and compare the graph's vectors with the model's.

    Raises:
        UserError: the model is not a dense one with its family's own mask, its embedding is not
            plain pooling, packages are missing, or the graph computes something else.
    """
    reason = saving.obstacle(embedder)
    if reason is None and not saving.is_plain(embedder):
        reason = f"its embedding ({embedder.config.embedding.name}) is more than pooling of tokens"
    if reason is not None:
        raise UserError(
            f"format onnx cannot express this model: {reason}",
            hint="use --format sentence_transformers",
        )
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"format onnx needs {', '.join(missing)}", hint="pip install 'embedexp[onnx]'"
        )
    saving.write(embedder, folder)
    path = folder / FOLDER / NAME
    path.parent.mkdir()
    trace(PooledModel(embedder, folder).eval(), path)
    compare(embedder, path)


class PooledModel(nn.Module):
    """The model in a plain folder with its pooling, from padded batches to vectors."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        from transformers import AutoModel

        super().__init__()
        family = family_of({"model_type": embedder.model.config.model_type})
        with quiet():
            self.model = AutoModel.from_pretrained(
                folder,
                attn_implementation="sdpa",
                dtype=torch.float32,
                local_files_only=True,
                **family.model_arguments,
            )
        self.model.config.use_cache = False
        self.option, self.width = embedder.config.embedding, embedder.width
        self.projection = embedder.projection

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states `[n, l, d]` and vectors `[n, width]`; padding on either side."""
        hidden: Tensor = self.model(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        vectors = pool(self.option.name, hidden, attention_mask)
        if self.projection is not None:
            vectors = self.projection(vectors)
        vectors = vectors[:, : self.width]
        if self.option.normalize:
            vectors = normalize(vectors, dim=-1)
        return hidden, vectors


def pool(name: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Vectors `[n, d]` of padded hidden states `[n, l, d]`, mask `[n, l]` 1 at real tokens."""
    places = mask.cumsum(-1) * mask  # 1, 2, ... in each sequence, 0 at padding
    if name in ("cls", "last_token"):
        chosen = (places == 1) if name == "cls" else (places == places.amax(-1, keepdim=True))
        weights = (chosen & (mask > 0)).to(hidden.dtype)
    else:
        weights = (places if name == "weighted_mean" else mask).to(hidden.dtype)
    pooled: Tensor = (hidden * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)
    return pooled


def trace(model: PooledModel, path: Path) -> None:
    """Write the graph of a model for batches of any size and length.

    Raises:
        UserError: torch cannot express the model.
    """
    ids = torch.randint(5, 50, (3, 11))
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model,
                (ids, torch.ones_like(ids)),
                str(path),
                input_names=["input_ids", "attention_mask"],
                output_names=["last_hidden_state", "sentence_embedding"],
                dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
                dynamo=True,
                verbose=False,
            )
    except Exception as error:
        raise UserError(
            f"torch cannot write this model as ONNX: {str(error).splitlines()[0][:160]}",
            hint="use --format sentence_transformers",
        ) from error
    finally:
        exporter.setLevel(level)


def compare(embedder: Embedder, path: Path) -> None:
    """Compare a graph's vectors with the model's, padded on the right, each text alone too.

    Raises:
        UserError: they differ.
    """
    expected = embedder.encode(PROBE)
    apart = max(
        float(np.abs(run(embedder, path, texts) - expected[rows]).max())
        for texts, rows in ((PROBE, slice(None)), (PROBE[:1], slice(1)))
    )
    if apart > TOLERANCE:
        raise UserError(
            f"the ONNX graph's vectors differ from the model's by {apart:.1e}",
            hint="use --format sentence_transformers",
        )


def run(
    embedder: Embedder, path: Path, texts: tuple[str, ...], task: str = "search_document"
) -> NDArray[np.float32]:
    """Vectors of texts `[n, width]` by onnxruntime, with the embedder's tokenizer and prompts."""
    onnxruntime: Any = import_module("onnxruntime")
    sequences = tokenize(embedder, texts, task=task, role=default_role(task))
    longest = max(map(len, sequences))
    ids = np.zeros((len(texts), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    # XLM-R counts positions from the padding token, which padding must therefore be.
    ids[mask == 0] = embedder.text_tokenizer.pad_token_id or 0
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    found: NDArray[np.float32] = session.run(
        ["sentence_embedding"], {"input_ids": ids, "attention_mask": mask}
    )[0]
    return found
