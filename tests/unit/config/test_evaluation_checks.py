"""What can't be measured, or would be measured by nobody, never starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embedexp import compose
from embedexp.config import catalogue
from embedexp.config.errors import UserError
from embedexp.config.show import show
from embedexp.config.sources import option_files

BASE = ["stage=evaluate", "stage.model=owner/model", "evaluation=mteb"]
BEIR = "evaluation.benchmarks=[BEIR]"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], "names nothing to measure"),
        (["evaluation.benchmarks=['MTEB(eng, v22)']"], "did you mean MTEB(eng, v2)?"),
        (["evaluation.benchmarks=[BIER]"], "did you mean BEIR?"),
        (["evaluation.tasks=[SciFakt]"], "did you mean SciFact?"),
        ([BEIR, "evaluation.exclude=[NFCorpos]"], "did you mean NFCorpus?"),
        ([BEIR, "evaluation.types=[Retrieving]"], "did you mean Retrieval?"),
        ([BEIR, "evaluation.types=[STS]"], "leave no task"),
        ([BEIR, "evaluation.languages=[en]"], "no code of ISO 639-3"),
        ([BEIR, "evaluation.shards=2", "evaluation.shard=2"], "the last of evaluation.shards=2"),
        ([BEIR, "+evaluation.prompts.Retreival-query='q: '"], "did you mean Retrieval?"),
        ([BEIR, "+evaluation.prompts.STS='{text} and {text}'"], "twice"),
        ([BEIR, "+instructions=mteb", "evaluation.instructions.template='Do: '"], "{instruction}"),
        ([BEIR, "evaluation.precision=float64"], "float16"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(overrides: list[str], said: str) -> None:
    with pytest.raises(UserError) as error:
        compose([*BASE, *overrides])
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) <= 3


def test_what_has_no_effect_is_told() -> None:
    with pytest.raises(UserError, match=r"evaluation\.shards=2 has no effect"):
        compose(["evaluation=mteb", BEIR, "evaluation.shards=2"])
    with pytest.raises(UserError, match=r"evaluation\.width=999 is more than the 384"):
        compose(["evaluation.width=999"])
    with pytest.raises(UserError, match=r"evaluation\.query_tokens=513, but minilm has 512"):
        compose(["evaluation.query_tokens=513"])
    assert compose(["evaluation.document_tokens=512"]).evaluation.document_tokens == 512
    compose(["backbone=tiny_llama", "evaluation.document_tokens=4096"])  # rotary
    idle = compose([*BASE, BEIR, "evaluation.exclude=[STS12]"])
    assert "STS12, which is not measured anyway" in "\n".join(idle.warnings)


@pytest.mark.parametrize("analysis", ["matryoshka", "moee_combinations"])
def test_an_analysis_of_scores_has_widths_of_its_own(analysis: str) -> None:
    given = ["stage=analyse", "stage.model=owner/model", f"analysis={analysis}"]
    compose(given)
    with pytest.raises(UserError, match=rf"evaluation\.width=64 has no place in .*={analysis}"):
        compose([*given, "evaluation.width=64"])


def test_keys_of_prompts_may_be_tasks_types_and_sides() -> None:
    keys = ["SciFact-query", "SciFact", "Retrieval-document", "Retrieval", "query", "document"]
    keys += ["CQADupstackRetrieval", "CMedQAv1-reranking"]  # names with dashes of their own
    config = compose([*BASE, BEIR, *(f"+evaluation.prompts.{key}='x: '" for key in keys)])
    assert list(config.evaluation.prompts) == keys
    builtin = compose(["+evaluation.prompts.WordNetClasses='c: '"])
    assert builtin.evaluation.prompts == {"WordNetClasses": "c: "}


def test_a_name_that_a_newer_mteb_may_have_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "is_complete", lambda: False)
    config = compose([*BASE, "evaluation.tasks=[BrandNewTask]", BEIR])
    assert "16 tasks (15 Retrieval, 1 unknown)" in " ".join(show(config).split())


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("nomic", "BEIR and MIRACL: 16 tasks"),
        ("mote", "MTEB(eng, v1): 56 tasks (15 Retrieval, 12 Classification"),
        ("moee", "19 tasks (8 STS, 3 Classification, 3 Reranking"),
        ("llama_embed_nemotron", "MTEB(Multilingual, v2): 131 tasks"),
        ("conan_v2", "MTEB(eng, v2) and C-MTEB (mteb's MTEB(cmn, v1)) and MKQA: 73 tasks"),
    ],
)
def test_show_says_what_a_protocol_measures(protocol: str, said: str) -> None:
    config = compose(["stage=evaluate", "stage.model=a/b", f"+protocol={protocol}"])
    assert said in " ".join(show(config).split())


def test_every_protocol_and_set_of_instructions_is_told_about() -> None:
    assert set(option_files("protocol")) == {
        "nomic",
        "mote",
        "moee",
        "llama_embed_nemotron",
        "conan_v2",
    }
    config = compose(["stage=evaluate", "stage.model=a/b", "+protocol=llama_embed_nemotron"])
    text = " ".join(show(config).split())
    for part in ("precision float16", "queries to 4096 tokens", "llama_embed_nemotron"):
        assert part in text


def test_keys_that_ask_for_nothing_leave_the_signature_alone() -> None:
    default = compose([])
    assert compose(["evaluation.batch_tokens=64"]).signature == default.signature
    for change in ("evaluation.width=64", "evaluation.precision=bfloat16",
                   "evaluation.query_tokens=16", "+evaluation.prompts.STS='s: '"):  # fmt: skip
        assert compose([change]).signature != default.signature, change


def test_names_are_known_without_mteb_and_torch() -> None:
    code = (
        "import sys; from embedexp import compose; from embedexp.config.show import show\n"
        f"show(compose({[*BASE, BEIR]!r})); print({{'mteb', 'torch'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
