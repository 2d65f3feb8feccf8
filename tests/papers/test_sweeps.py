"""Published figures in the sweep files are the papers', and one cell of every file runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import embedexp
from embedexp.config.catalogue import task_types, tasks_of
from embedexp.runs import State
from embedexp.sweeps.cells import cells
from embedexp.sweeps.file import read, sweep_files, sweeps_folder
from embedexp.sweeps.planning import plan
from embedexp.sweeps.schema import Sweep
from embedexp.sweeps.table import table

from .published_tables import MOEE_DETAILS, TABLES

FILES = [path.relative_to(sweeps_folder()).as_posix() for path in sweep_files()]
CONAN = (
    "conan_v2/table4_components",
    "conan_v2/table6_lora_soft_mask",
    "conan_v2/table12_mask_schedule",
)
SMALLEST = [
    "scale=demo",
    "scale.steps=2",
    "scale.batch_size=32",
    "scale.layers=2",
    "scale.examples=120",
    "scale.evaluation_queries=10",
    "scale.evaluation_documents=30",
    "scale.evaluation_examples=60",
    "tracking=none",
]
"""Two steps of whatever it is."""


def sweep(name: str) -> Sweep:
    """A sweep file of the project."""
    return read(sweeps_folder() / f"{name.removesuffix('.yaml')}.yaml")


def figures(name: str) -> dict[str, Any]:
    """The published figures of a file."""
    published = sweep(name).published
    assert published is not None
    return dict(published.values)


def test_every_table_with_figures_is_checked() -> None:
    assert {name.removesuffix(".yaml") for name in FILES if sweep(name).published} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_published_figures_are_the_papers(name: str) -> None:
    columns, *rows = [line.split("|") for line in TABLES[name].strip().splitlines()]
    headings = [heading.strip() for heading in columns[1:]]
    printed = {
        row.strip(): {
            heading: float(cell)
            for heading, cell in zip(headings, cells, strict=True)
            if cell.strip()
        }
        for row, *cells in rows
    }
    assert {row: dict(_cells(values)) for row, values in figures(name).items()} == printed


def _cells(values: Any, above: str = "") -> list[tuple[str, float]]:
    """Figures of one row by their heading; levels are joined by a space."""
    found = []
    for label, value in values.items():
        heading = f"{above} {label}".strip()
        found += _cells(value, heading) if isinstance(value, dict) else [(heading, value)]
    return found


@pytest.mark.parametrize("table_name", ["table3_no_prompt", "table4_prompt_eol"])
def test_scores_by_type_follow_from_the_papers_scores_by_dataset(table_name: str) -> None:
    prompt = "none" if table_name == "table3_no_prompt" else "PromptEOL"
    sizes = {
        "STS": 8,
        "classification": 3,
        "pair classification": 2,
        "clustering": 2,
        "reranking": 3,
    }
    for row, printed in figures(f"moee/{table_name}").items():
        scores = [float(score) for score in MOEE_DETAILS[f"{row} · {prompt}"].split()]
        means = {}
        for kind, size in sizes.items():
            means[kind], scores = sum(scores[:size]) / size, scores[size:]
        if row == "DeepSeekMoE-16b · HS" and prompt == "none":
            assert means.pop("reranking") == pytest.approx(38.26, abs=0.006)  # printed: 38.13
        assert means == {kind: pytest.approx(printed[kind], abs=0.011) for kind in means}
        kinds = [value for kind, value in printed.items() if kind != "mean over types"]
        assert printed["mean over types"] == pytest.approx(sum(kinds) / 6, abs=0.011)


@pytest.mark.parametrize("table_name", ["table4_losses", "table7_merging"])
def test_means_over_types_follow_from_the_types(table_name: str) -> None:
    for row in figures(f"llama_embed_nemotron/{table_name}").values():
        kinds = [value for kind, value in row.items() if not kind.startswith("mean")]
        assert len(kinds) == 9
        assert row["mean (type)"] == pytest.approx(sum(kinds) / 9, abs=0.011)


def test_the_average_of_conan_v1_follows_from_its_types() -> None:
    tasks = {"classification": 9, "clustering": 4, "pair classification": 2, "reranking": 4}
    tasks |= {"retrieval": 8, "STS": 8}
    both = figures("conan_v1/table4_cbb_and_dhnm")["Conan-embedding"]
    mean = sum(both[kind] * count for kind, count in tasks.items()) / sum(tasks.values())
    assert mean == pytest.approx(both["average"], abs=0.005)


def test_gains_of_mote_follow_from_its_types() -> None:
    trained = figures("mote/table2_trained_tasks")["MoTE"]
    unseen = figures("mote/table3_unseen_tasks")["MoTE"]
    mean = (
        15 * trained["retrieval"] + 12 * trained["classification"] + 11 * trained["clustering"]
    ) / 38
    assert mean == pytest.approx(trained["trained tasks"], abs=0.011)
    mean = 4 * unseen["reranking"] + 3 * unseen["pair classification"] + 10 * unseen["STS"]
    mean = (mean + unseen["summarization"]) / 18
    assert mean == pytest.approx(unseen["unseen tasks"], abs=0.005)
    # The abstract: 2.60 over all 56.
    every = (38 * trained["trained tasks"] + 18 * unseen["unseen tasks"]) / 56
    assert every == pytest.approx(2.60, abs=0.011)


def test_cells_that_two_tables_print_are_one_run() -> None:
    conan = {name: _runs(name) for name in CONAN}
    components = conan["conan_v2/table4_components"]
    assert components["SM"] == conan["conan_v2/table12_mask_schedule"]["Linear"]
    lora = conan["conan_v2/table6_lora_soft_mask"]
    assert components["SM+CLR+DHNM"] == lora["Full fine-tuning · with soft mask"]
    assert components["CLR+DHNM"] == lora["Full fine-tuning · without soft mask"]
    assert (
        _runs("mote/table2_trained_tasks")["MoTE"] == _runs("mote/table4_static_vs_ta_cl")["TA-CL"]
    )
    assert _runs("mote/table6_every_block")["EOB"] == _runs("mote/table7_expert_averaging")["MoTE"]
    static = _runs("mote/table4_static_vs_ta_cl")["static"]
    assert _runs("mote/figure6_7_temperature")["0.03"] == static
    assert _runs("mote/figure4_5_batching")["heterogeneous"] == static
    dense = _runs("nomic_embed_v2/figure1_batch_and_architecture")
    assert (
        dense["Nomic BERT MoE · 4096"]
        == _runs("nomic_embed_v2/table7_expert_placement")["6 layers · 4096"]
    )


def _runs(name: str) -> dict[str, str]:
    made = plan(sweep(name), ["scale=demo", "paths.runs=runs"], seeds=[0])
    return {cell.name: run.directory.name for cell, run in made.cells}


@pytest.mark.parametrize("name", FILES)
def test_tasks_and_benchmarks_are_known_to_mteb(name: str) -> None:
    for label, measure in sweep(name).all_measures.items():
        if measure.benchmark is not None:
            assert tasks_of(measure.benchmark), label
        if measure.at != "demo":
            for task in measure.tasks or ():
                assert task in task_types(), label


@pytest.mark.sweep_files
@pytest.mark.parametrize("name", FILES)
def test_one_cell_runs_at_the_smallest_scale(name: str, tmp_path: Path) -> None:
    typed = [*SMALLEST, f"paths.runs={tmp_path / 'runs'}"]
    every = cells(sweep(name))
    first = every[-1] if sweep(name).mode == "chain" else every[0]
    made = plan(sweep(name), typed, seeds=[0], labels=[label for _, label in first.labels])
    for planned in made.runs:
        embedexp.run(planned.config, quiet=True)
        assert planned.directory.status.state is State.FINISHED
    shown = {place: entry for place, entry in table(made).entries.items() if place[0] == first.row}
    assert shown
    assert {reason for entry in shown.values() for reason in entry.missing.values()} == set()
