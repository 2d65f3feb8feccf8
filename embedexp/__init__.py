"""embedexp: declarative experiments with text-embedding models."""
