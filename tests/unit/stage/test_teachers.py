"""Teachers: what their kept vectors are filed under tells apart what gives other vectors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import embedexp
from embedexp import config as configuration
from embedexp.stage.teachers import teacher

TEXTS = ["a small furry animal", "a large body of water that flows"]


@pytest.fixture
def taught(tmp_path, monkeypatch):
    """The vectors and the content of the backbone option `tiny`, composed with more overrides."""
    stage = embedexp.compose(["stage=filter"]).stage
    compose = configuration.compose

    def ask(*more):
        monkeypatch.setattr(configuration, "compose", lambda asked: compose([*asked, *more]))
        found = teacher("tiny", stage.embeddings, tmp_path / "cache", "cpu")
        vectors = found.vectors(TEXTS, "retrieval", is_query=True)
        return np.array(vectors[:]), found.content

    return ask


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    embedexp.build_embedder(embedexp.compose(["backbone=tiny"])).save(folder)
    return folder


def test_options_that_read_one_source_in_two_ways_are_two_teachers(taught, source):
    read = ("backbone.weights=pretrained", f"backbone.source={source}")
    plain, _ = taught(*read)
    rotary, _ = taught(*read, "backbone.positions={base: 10000, max_length: 512}")
    assert not np.allclose(plain, rotary)
    assert np.array_equal(taught(*read)[0], plain)


def test_random_weights_of_another_size_are_another_teacher(taught):
    assert taught()[0].shape != taught("backbone.architecture.hidden_size=64")[0].shape


def test_a_source_elsewhere_is_the_same_teacher(taught, source, tmp_path):
    _, first = taught("backbone.weights=pretrained", f"backbone.source={source}")
    shutil.move(source, tmp_path / "moved")
    _, again = taught("backbone.weights=pretrained", f"backbone.source={tmp_path / 'moved'}")
    assert again == first
