"""Every sweep file of the project plans, and its cells differ in nothing but what it is about."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedexp.config.flat import flatten
from embedexp.sweeps.cells import ALONE, key_of
from embedexp.sweeps.file import read, sweep_files, sweeps_folder
from embedexp.sweeps.planning import SweepPlan, plan
from embedexp.sweeps.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.sweeps.cells import Cell

FILES = [path.relative_to(sweeps_folder()).as_posix() for path in sweep_files()]
SCALES = ("full", "demo")

# What follows from other keys, or says where they come from.
_DERIVED = ("provenance", "paths", "name", "demo", "seed")

BETWEEN_PAPERS = {
    "llama_embed_nemotron/table4_losses.yaml": ("loss", "negatives.count"),
    "llama_embed_nemotron/table5_generators.yaml": ("data", "training.steps"),
    "llama_embed_nemotron/table6_synthetic_or_in_domain.yaml": (
        "data",
        "training.steps",
        "evaluation.benchmarks",
        "evaluation.tasks",
    ),
    "mote/table2_trained_tasks.yaml": (
        "routing",
        "embedding.prompts",
        "loss",
        "batching",
        "data",
    ),
    "mote/table3_unseen_tasks.yaml": ("routing", "embedding.prompts"),
    "mote/table4_static_vs_ta_cl.yaml": ("loss", "batching"),
    "mote/table5_slr_vs_tlr.yaml": ("routing",),
    "mote/table6_every_block.yaml": ("routing.placement",),
    "mote/table7_expert_averaging.yaml": ("routing",),
}
"""What else differs where rows choose a paper's file each: what the table is about."""

UNTRAINED = ("moee/table", "moee/figure")
"""Tables of models as they are, in which a second seed would be the first again."""


@cache
def planned(name: str, scale: str) -> SweepPlan:
    """The plan of a file with one seed; composed without looking at data that are not here."""
    return plan(read(sweeps_folder() / name), [f"scale={scale}", "paths.runs=runs"], seeds=[0])


def named_keys(cell: Cell, stage: str, *, demo: bool) -> Iterator[str]:
    """What the labels of a cell set in one of its runs; a chosen option is all of its group."""
    for entry in cell.entries:
        given = entry.stages[stage].overrides(demo=demo) if stage in entry.stages else []
        if stage in (cell.stages[-1], ALONE):
            given += entry.overrides(demo=demo)
        yield from map(key_of, given)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", FILES)
def test_every_cell_composes_and_none_is_there_twice(name: str, scale: str) -> None:
    found = planned(name, scale)
    shown = [(run.config.signature, cell.phase) for cell, run in found.cells]
    assert len(set(shown)) == len(shown) > 0


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", FILES)
def test_published_figures_and_comparisons_name_places_of_the_table(name: str, scale: str) -> None:
    made = table(planned(name, scale))
    sweep = planned(name, scale).sweep
    # At demo scale a table may have other measures than the paper's.
    if sweep.published is not None and scale == "full":
        assert any(entry.published is not None for entry in made.entries.values())
    assert made.comparisons or len(made.rows) == 1


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", FILES)
def test_cells_differ_only_in_what_their_labels_set(name: str, scale: str) -> None:
    found = planned(name, scale)
    showing: dict[str, list[Cell]] = {}
    for cell, run in found.cells:
        showing.setdefault(run.config.signature, []).append(cell)
    every = [cell for cell, _ in found.cells]
    by_stage: dict[str, list[tuple[list[Cell], dict[str, object], str]]] = {}
    for run in found.runs:
        # What cells only build on may be set by the labels of any of them.
        users = showing.get(run.config.signature, every)
        there = by_stage.setdefault(run.stage, [])
        there.append((users, flatten(run.config.to_dict()), run.label))
    for stage, runs in by_stage.items():
        first_users, first, _ = runs[0]
        for users, other, label in runs[1:]:
            keys = {key for key in first | other if first.get(key) != other.get(key)}
            allowed = {
                key
                for one in (*first_users, *users)
                for key in named_keys(one, stage, demo=scale == "demo")
            } | set(BETWEEN_PAPERS.get(name, ()))
            strange = {
                key
                for key in keys
                if not key.startswith(_DERIVED)
                and not any(key == one or key.startswith(f"{one}.") for one in allowed)
                and not str(other.get(key)).startswith("runs/")
            }
            assert strange == set(), f"{label} ({stage})"


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_answers_and_where_its_figures_come_from(name: str) -> None:
    sweep = read(sweeps_folder() / name)
    assert sweep.question.endswith("?")
    assert sweep.paper is not None
    assert Path(name).parts[0] == sweep.paper.name
    assert len(sweep.seeds) >= (1 if name.startswith(UNTRAINED) else 3)
