"""Whose prompt comes first, held to mteb's own order and to its code for single models."""

from __future__ import annotations

import warnings
from typing import Any

import mteb
import pytest
from mteb.models.abs_encoder import get_prompt
from mteb.models.model_implementations import nomic_models, nvidia_models
from mteb.types import PromptType

from embedexp.config import compose
from embedexp.config.schema.evaluation import Instructions
from embedexp.evaluation.prompts import SIDES, Prompts

QUERY, DOCUMENT = PromptType.query, PromptType.document

TASKS = [
    "SciFact",
    "ArguAna",
    "AskUbuntuDupQuestions",
    "STS12",
    "SprintDuplicateQuestions",
    "Banking77Classification",
    "TwentyNewsgroupsClustering",
    "BornholmBitextMining",
    "SummEval",
    "Core17InstructionRetrieval",
]


def metadata(name: str) -> Any:
    return mteb.get_task(name).metadata


def instructions(name: str, **changed: Any) -> Instructions:
    given = compose(["stage=evaluate", "stage.model=a/b", "evaluation=mteb",
                     "evaluation.tasks=[SciFact]", f"+instructions={name}"])  # fmt: skip
    return given.evaluation.instructions.model_copy(update=changed)


def test_the_order_within_a_table_is_mtebs() -> None:
    keys = ["SciFact-query", "SciFact", "Retrieval-query", "Retrieval", "query"]
    for missing in range(len(keys)):
        table = {key: f"by {key}: " for key in keys[missing:]}
        found = Prompts(table).of(metadata("SciFact"), QUERY)
        assert found == f"by {keys[missing]}: " == get_prompt(table, metadata("SciFact"), QUERY)
    assert Prompts({"query": "q: "}).of(metadata("STS12"), None) is None
    assert Prompts({"Retrieval-query": "q: "}).of(metadata("SciFact"), DOCUMENT) is None


def test_the_options_table_goes_before_sentences_and_these_before_the_models_own() -> None:
    sentences = instructions("mteb")
    full = Prompts({"STS12": "t: "}, sentences, {"STS12": "s: ", "STS": "s: "})
    assert full.of(metadata("STS12"), None) == "t: "
    assert full.of(metadata("STS13"), None) == (
        f"Instruct: {metadata('STS13').prompt or 'Retrieve semantically similar text.'}\nQuery: "
    )
    assert Prompts({}, None, {"STS": "s: "}).of(metadata("STS12"), None) == "s: "
    assert Prompts({"STS": ""}, sentences).of(metadata("STS12"), None) == ""


def test_the_nomic_protocol_has_the_prompts_of_mtebs_code_for_nomic() -> None:
    option = compose(["stage=evaluate", "stage.model=a/b", "+protocol=nomic"]).evaluation
    assert option.name == "mteb"
    assert option.prompts == nomic_models.model_prompts
    assert (option.query_tokens, option.document_tokens) == (512, 512)


@pytest.mark.parametrize("name", [*TASKS, *list(nvidia_models.TASK_PROMPTS)[::6]])
def test_the_sentences_of_llama_embed_nemotron_are_those_of_its_code(name: str) -> None:
    wrapper_class = nvidia_models.LlamaEmbedNemotron
    wrapper = wrapper_class.__new__(wrapper_class)
    wrapper.task_prompts = nvidia_models.TASK_PROMPTS
    wrapper.instruction_template = wrapper._instruction_template
    ours = Prompts({}, instructions("llama_embed_nemotron"))
    task = metadata(name)
    ranked = "Retrieval" in task.type or "Reranking" in task.type
    for side in (QUERY, DOCUMENT) if ranked else (None,):
        with warnings.catch_warnings():  # mteb's, of documents that have no sentence
            warnings.simplefilter("ignore")
            words = wrapper._get_task_specific_instruction(task, side)
        assert ours.of(task, side) == wrapper.format_instruction(words, side), (name, side)


def test_documents_get_a_sentence_only_where_it_is_asked_for() -> None:
    task = metadata("SciFact")
    assert Prompts({}, instructions("mteb")).of(task, DOCUMENT) == ""
    asked = Prompts({}, instructions("mteb", documents=True))
    assert asked.of(task, QUERY).startswith("Instruct: Given a scientific claim")
    both = instructions("mteb", overrides={"document": "Represent this"})
    assert Prompts({}, both).of(task, DOCUMENT) == "Instruct: Represent this\nQuery: "


def test_what_is_said_of_a_task_of_several_holds_for_its_parts() -> None:
    whole, parts = metadata("CQADupstackRetrieval"), ["CQADupstackTexRetrieval"]
    tex, unix = metadata(parts[0]), metadata("CQADupstackUnixRetrieval")
    table = {f"{whole.name}-query": "whole: ", "Retrieval": "type: "}
    found = Prompts(table).within(whole.name, parts)
    assert found.of(tex, QUERY) == "whole: "
    assert found.of(tex, DOCUMENT) == found.of(unix, QUERY) == "type: "
    own = Prompts(table | {tex.name: "own: "}).within(whole.name, parts)
    assert own.of(tex, QUERY) == own.of(tex, DOCUMENT) == "own: "
    asked = instructions("mteb", overrides={whole.name: "Find the same"})
    inside = Prompts({}, asked).within(whole.name, parts)
    assert inside.of(tex, QUERY) == "Instruct: Find the same\nQuery: "


def test_every_side_of_every_task_of_a_benchmark_has_an_answer() -> None:
    ours = Prompts({}, instructions("mteb"))
    for task in mteb.get_benchmark("MTEB(Multilingual, v2)").tasks:
        for side in SIDES:
            assert isinstance(ours.of(task.metadata, side), str)
