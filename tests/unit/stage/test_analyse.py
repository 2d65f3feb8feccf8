"""stage=analyse: a table, figures and a picture in the run directory, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import embedexp
from embedexp.cli import main
from embedexp.config.errors import UserError
from embedexp.runs import Run

SMALL = [
    "evaluation.max_queries=10",
    "evaluation.max_documents=30",
    "evaluation.max_examples=60",
    "evaluation.before=false",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model with experts, and a dense one."""
    folder = tmp_path_factory.mktemp("models")
    for name, more in (("moe", ["routing=moe"]), ("dense", ["seed=1"])):
        embedexp.build_embedder(embedexp.compose(["backbone=tiny", *more])).save(folder / name)
    return {name: folder / name for name in ("moe", "dense")}


def analysed(analysis: str, model: Path, runs: Path, *more: str) -> tuple[Run, dict[str, Any]]:
    """The run of an analysis, and what its JSON says."""
    config = embedexp.compose(
        [
            "stage=analyse", f"analysis={analysis}", f"stage.model={model}",
            "tracking=none", f"paths.runs={runs}", *more,
        ]
    )  # fmt: skip
    run = embedexp.run(config, quiet=True)
    found = json.loads((run.path / "analysis" / f"{analysis}.json").read_text())
    picture = (run.path / "analysis" / f"{analysis}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert found["unit"]
    assert found["settings"]["model"] == str(model)
    return run, found


def test_task_similarity_compares_with_a_baseline(models, tmp_path: Path, capsys) -> None:
    run, found = analysed(
        "task_similarity", models["moe"], tmp_path,
        "analysis.documents=6", f"analysis.baseline={models['dense']}",
        "analysis.tasks=[search_query,clustering]",
    )  # fmt: skip
    (pair,) = found["data"]["pairs"]
    assert len(pair["cosines"]) == len(pair["baseline_cosines"]) == 6
    # Without prompts and task experts an instruction changes nothing, up to the length.
    assert pair["mean"] == pytest.approx(1, abs=1e-5)
    assert pair["baseline"]["p_value"] is None
    assert main(["results", str(run.path)]) == 0
    told = capsys.readouterr().out
    assert "search query & clustering" in told
    assert "unit: text (6 in each arm)" in told


def test_router_agreement_groups_the_texts_of_a_file(models, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"text about {word} {i}" for i in range(8) for word in ("a", "b")))
    _, found = analysed(
        "router_agreement", models["moe"], tmp_path,
        f"analysis.texts={texts}", "analysis.documents=16", "analysis.restarts=2",
    )  # fmt: skip
    assert {len(groups) for groups in found["data"]["groups"].values()} == {16}
    assert [row[0] for row in found["rows"]] == ["AMI", "NMI", "Jaccard", "exact matching"]


def test_prompt_robustness_makes_a_square_over_both_kinds(models, tmp_path: Path) -> None:
    _, found = analysed(
        "prompt_robustness", models["moe"], tmp_path,
        "analysis.documents=8", "~analysis.prompts.style", "~analysis.prompts.tone",
        "~analysis.prompts.intent", "~analysis.prompts.complexity", "~analysis.prompts.grammar",
    )  # fmt: skip
    assert len(found["data"]["names"]) == len(found["data"]["correlations"]) == 8
    assert [found["data"]["correlations"][i][i] for i in range(8)] == [1.0] * 8


def test_matryoshka_measures_each_width_and_the_whole(models, tmp_path: Path) -> None:
    _, found = analysed(
        "matryoshka", models["dense"], tmp_path, *SMALL,
        "analysis.widths=[8,500]", "evaluation.tasks=[WordNetSimilarity]",
    )  # fmt: skip
    whole = embedexp.load(models["dense"]).width
    assert found["data"]["widths"] == [8, whole]
    config = embedexp.compose(
        [
            "stage=evaluate", f"stage.model={models['dense']}", "tracking=none", *SMALL,
            f"paths.runs={tmp_path}", "evaluation.tasks=[WordNetSimilarity]", "evaluation.width=8",
        ]
    )  # fmt: skip
    (score,) = embedexp.run(config, quiet=True).scores["after"]
    assert found["data"]["scores"]["WordNetSimilarity"][0] == score["value"]


def test_moee_combinations_name_the_rule_of_each_sum(models, tmp_path: Path) -> None:
    _, found = analysed(
        "moee_combinations", models["moe"], tmp_path, *SMALL,
        "evaluation.max_examples=300",
        "evaluation.tasks=[WordNetSimilarity,WordNetClasses,WordNetKinds]",
    )  # fmt: skip
    assert found["columns"] == ["type of task", "HS", "RW", "MoEE (concat)", "MoEE (sum)"]
    assert found["data"]["sum"]["STS"].startswith("similarity")
    assert found["data"]["sum"]["Classification"].startswith("label")
    assert found["data"]["sum"]["MultilabelClassification"] is None
    sums = found["data"]["scores"]["MoEE (sum)"]
    assert set(sums) == {"WordNetSimilarity", "WordNetClasses"}


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["analysis=matryoshka"], "no effect in stage=contrastive"),
        (["stage=analyse", "stage.model=x"], "analysis=none says nothing to do"),
        (["stage=analyse", "analysis=matryoshka", "stage.model=./no"], "does not exist"),
        (
            ["stage=analyse", "analysis=task_similarity", "stage.model=x", "evaluation.width=8"],
            "evaluation has no effect in analysis=task_similarity",
        ),
        (
            ["stage=analyse", "analysis=matryoshka", "stage.model=x", "evaluation=none"],
            "evaluation=none has no tasks",
        ),
        (
            ["stage=analyse", "analysis=router_agreement", "stage.model=x", "analysis.texts=./no"],
            "is not a file",
        ),
        (
            ["stage=analyse", "analysis=prompt_robustness", "stage.model=x",
             "analysis.prompts.style=plain"],
            "does not say where the text stands",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(overrides: list[str], told: str) -> None:
    with pytest.raises(UserError) as raised:
        embedexp.compose(overrides)
    assert told in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 3


def test_fewer_texts_than_asked_and_no_experts_are_told(models, tmp_path: Path) -> None:
    texts = tmp_path / "few.txt"
    texts.write_text("one\ntwo\n")
    with pytest.raises(UserError, match="has 2 different texts"):
        analysed("task_similarity", models["moe"], tmp_path, f"analysis.texts={texts}")
    with pytest.raises(UserError, match="routes no tokens to experts"):
        analysed("router_agreement", models["dense"], tmp_path, "analysis.documents=4")


def test_content_of_the_texts_is_part_of_the_identity(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"

    def signature() -> str:
        return embedexp.compose(
            [
                "stage=analyse",
                "analysis=task_similarity",
                "stage.model=x",
                f"analysis.texts={texts}",
            ]
        ).signature

    texts.write_text("one\n")
    first = signature()
    texts.write_text("two\n")
    assert signature() != first
