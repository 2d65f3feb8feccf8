from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from mteb import TaskMetadata
from mteb.types import PromptType

from embedexp.evaluation.encoder import Encoder
from embedexp.evaluation.subject import Subject

if TYPE_CHECKING:
    from .conftest import Words


def metadata(kind: str, name: str = "T") -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description="a test",
        type=kind,
        eval_langs=["eng-Latn"],
        main_score="accuracy",
        dataset={"path": "none", "revision": "0"},
    )


def encode(encoder: Encoder, texts: list[str], kind: str, side: Any = None, name: str = "T") -> Any:
    batches = [{"text": texts[:2]}, {"text": texts[2:]}]
    return encoder.encode(batches, task_metadata=metadata(kind, name), prompt_type=side)


@pytest.mark.parametrize(
    ("kind", "side", "instruction"),
    [
        ("Retrieval", PromptType.query, "search_query"),
        ("Retrieval", PromptType.document, "search_document"),
        ("Reranking", PromptType.query, "search_query"),
        ("Reranking", PromptType.document, "search_document"),
        ("InstructionRetrieval", PromptType.query, "search_query"),
        ("Classification", None, "classification"),
        ("MultilabelClassification", None, "classification"),
        ("PairClassification", None, "classification"),
        ("STS", None, "classification"),
        ("Summarization", None, "classification"),
        ("BitextMining", None, "classification"),
        ("Clustering", None, "clustering"),
    ],
)
def test_task_type_and_side_give_the_instruction(
    embedder: Words, kind: str, side: PromptType | None, instruction: str
) -> None:
    encode(Encoder(Subject(embedder), revision="r"), ["a", "b", "c"], kind, side)
    assert [task for task, _ in embedder.calls] == [instruction]


def test_a_named_task_keeps_the_instruction_that_it_was_trained_with(embedder: Words) -> None:
    encoder = Encoder(Subject(embedder), revision="r", training_tasks={"Heldout: x": "clustering"})
    encode(encoder, ["a", "b", "c"], "Retrieval", PromptType.query, "Heldout: x")
    encode(encoder, ["a", "b", "c"], "Retrieval", PromptType.query)
    assert [task for task, _ in embedder.calls] == ["clustering", "search_query"]


def test_texts_are_encoded_once_per_instruction_and_come_back_in_order(embedder: Words) -> None:
    encoder = Encoder(Subject(embedder), revision="r")
    first = encode(encoder, ["a", "b", "a", "c"], "STS")
    second = encode(encoder, ["d", "c", "b", "a"], "Classification")
    assert embedder.calls == [("classification", ["a", "b", "c"]), ("classification", ["d"])]
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[[3, 1, 0]], second[1:])
    encode(encoder, ["a", "b", "c"], "Clustering")
    assert embedder.calls[-1] == ("clustering", ["a", "b", "c"])


def test_instructions_that_do_the_same_share_their_vectors(embedder: Words) -> None:
    subject = Subject(embedder)
    subject.treatment = lambda task, prompt: task == "search_query"
    encoder = Encoder(subject, revision="r")
    encode(encoder, ["a", "b", "c"], "STS")
    encode(encoder, ["a", "b", "c"], "Clustering")
    encode(encoder, ["a", "b", "c"], "Retrieval", PromptType.document)
    encode(encoder, ["a", "b", "c"], "Retrieval", PromptType.query)
    assert [task for task, _ in embedder.calls] == ["classification", "search_query"]


def test_mteb_sees_the_revision_and_takes_it_for_an_encoder(embedder: Words) -> None:
    from mteb import EncoderProtocol, SearchProtocol

    encoder = Encoder(Subject(embedder), revision="0123abcd")
    assert isinstance(encoder, EncoderProtocol)
    assert not isinstance(encoder, SearchProtocol)
    assert encoder.mteb_model_meta.revision == "0123abcd"
