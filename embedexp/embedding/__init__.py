"""Embedding: prompts, pooling, normalisation, widths; models as folders that others can load."""

from .building import build_embedder
from .embedder import Embedder
from .loading import load
from .model_config import ModelConfig
from .output import Embeddings

__all__ = ["Embedder", "Embeddings", "ModelConfig", "build_embedder", "load"]
