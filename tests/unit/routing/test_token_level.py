from __future__ import annotations

import pytest

from embedexp.config import compose
from embedexp.config.figures import parameters

from .test_upcycling import MIXED, build


def test_tokens_of_one_sequence_go_to_different_experts():
    router = build("tiny", "token_level", router_std=0.3)(MIXED).router
    assert len(router.assignments) == 2
    first = int(MIXED.cu_seqlens[1])
    assert all(len(a[:first].unique()) > 1 for a in router.assignments)


def test_it_meets_as_many_parameters_as_task_routing_beside_its_router():
    task, token = (parameters(compose([f"routing={r}"])) for r in ("mote", "token_level"))
    router = 6 * 384 * 4
    assert token["active"] - router == task["active"]


@pytest.mark.parametrize("given", [True, False])
def test_the_instruction_belongs_into_the_text(given):
    prompts = ["embedding.prompts.clustering='clustering: '"] if given else []
    warnings = " ".join(compose(["routing=token_level", *prompts]).warnings)
    assert ("prompts are empty" in warnings) is not given
