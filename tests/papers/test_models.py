"""Each paper's model has the published sizes and says where its values come from."""

from __future__ import annotations

import pytest
import yaml

from embedexp.backbone.counts import parameter_counts
from embedexp.config import compose
from embedexp.config.locations import conf_dir
from embedexp.config.show import show

EXACT = {
    "nomic_embed_v2": (475_257_600, 305_388_288),
    "mote": (391_646_208, 136_731_648),
    "moee": (6_816_139_264, 1_178_994_688),
    "llama_embed_nemotron": (7_504_924_672, 7_504_924_672),
    "conan_v2": (1_499_205_120, 1_499_205_120),
    "conan_v1": (326_309_632, 326_309_632),
}
"""Total and active parameters of `+paper=NAME/model`, without language-model heads."""

PUBLISHED = {
    "nomic_embed_v2": (475e6, 305e6, 2e-3),
    "mote": (137e6 + 254.8e6, 137e6, 3e-3),  # 3 extra SwiGLU experts in 12 blocks, equal active
    "moee": (6.9e9 - 103e6, 1.3e9 - 103e6, 2e-2),  # OLMoE's own figures count its head
    "llama_embed_nemotron": (7_504_924_672, 7_504_924_672, 0),
    "conan_v2": (1503e6, 1503e6, 3e-3),
    "conan_v1": (326e6, 326e6, 1e-3),
}
"""Published sizes, and how exactly they are stated."""


def test_every_paper_is_checked():
    assert {path.name for path in (conf_dir() / "paper").iterdir()} == set(EXACT)


@pytest.mark.parametrize("paper", EXACT)
def test_counts(paper):
    counts = parameter_counts(compose([f"+paper={paper}/model"]))
    assert (counts["total"], counts["active"]) == EXACT[paper]
    total, active, relative = PUBLISHED[paper]
    assert counts["total"] == pytest.approx(total, rel=relative)
    assert counts["active"] == pytest.approx(active, rel=relative)


@pytest.mark.parametrize("paper", EXACT)
def test_show_tells_the_counts_and_their_sources(paper):
    config = compose([f"+paper={paper}/model"])
    text = show(config)
    assert f"{EXACT[paper][0]:,} / {EXACT[paper][1]:,}" in " ".join(text.split())
    assert config.run_name.startswith(paper)
    assert "published  " in text
    for key in config.provenance:
        value = config
        for part in key.split("."):
            value = value[part] if isinstance(value, dict) else getattr(value, part)


@pytest.mark.parametrize("path", sorted((conf_dir() / "paper").rglob("*.yaml")), ids=str)
def test_every_value_of_a_paper_says_where_it_comes_from(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    given = {
        f"{group}.{key}"
        for group, values in content.items()
        if isinstance(values, dict) and group != "provenance"
        for key in values
        if values[key] != "???"  # which the user gives
    }
    assert given <= set(content["provenance"])


@pytest.mark.parametrize("paper", EXACT)
def test_a_later_override_wins(paper):
    assert compose([f"+paper={paper}/model", "seed=7", "name=mine"]).name == "mine"
