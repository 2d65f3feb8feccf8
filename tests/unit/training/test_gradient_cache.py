"""Chunks change the memory that a step needs, not its gradient."""

from __future__ import annotations

import weakref

import pytest
import torch

from embedexp import routing
from embedexp.batching.permutation import key_of
from embedexp.routing import RouterOutput
from embedexp.training.chunks import chunks
from embedexp.training.finite import NonFiniteLossError
from tests.distributed.cases import Case, assert_equal_gradients, composed, gradients, take

ROUTED = ["routing.placement=every", "routing.num_experts=4"]
MODELS = {
    "dense": [],
    "soft mask": ["mask_schedule=linear"],
    "moe": ["routing=moe", *ROUTED, "routing.z_loss_coefficient=0.05"],
    "switch": ["routing=switch", *ROUTED, "routing.balance_coefficient=0.5"],
    "expert_choice": ["routing=expert_choice", *ROUTED, "routing.z_loss_coefficient=0.05"],
    "mote": ["routing=mote", "routing.placement=every"],
}
LOSSES = {"infonce": [], "task_aware": ["loss=task_aware", "batching=task_aware"]}


def case(model="dense", loss="infonce", *, negatives=True, more=()):
    config = composed("batching.size=6", *MODELS[model], *LOSSES[loss], *more)
    return Case(model, config, config.loss, config.batching, negatives)


def in_one_graph(objective, batch, alpha):
    """Loss and gradients of the same chunks without a cache, each drawing what it would draw."""
    vectors, routers, order = [], [], []
    for number, index in enumerate(chunks(batch.layout.lengths, objective.chunk_tokens)):
        torch.manual_seed(key_of(0, "dropout", 3, 0, number))
        output = objective.embedder(batch.tokens.select(torch.from_numpy(index)), alpha)
        vectors.append(output.vectors)
        routers.append(output.router)
        order.extend(index.tolist())
    output = objective.loss(torch.cat(vectors)[torch.tensor(order).argsort()], batch)
    total = output.total
    if routers[0] is not None:
        fields = ("probabilities", "assignments", "logits", "loads")
        joined = RouterOutput(
            *(
                [torch.stack(x).sum(0) if name == "loads" else torch.cat(x) for x in layers]
                for name in fields
                for layers in [list(zip(*(getattr(r, name) for r in routers), strict=True))]
            )
        )
        added = routing.auxiliary(objective.routing, joined)
        total = total if added is None else total + added
    total.backward()
    return total.detach(), gradients(objective)


def compare(case, dropout, alpha=1.0):
    expected = in_one_graph(objective := case.objective(dropout), case.batch(), alpha)
    for p in objective.loss.parameters():
        assert p.grad is not None
    output = take(found := case.objective(dropout), case.batch(), alpha=alpha)
    torch.testing.assert_close(output.loss, expected[0], atol=1e-6, rtol=1e-6)
    assert_equal_gradients(gradients(found), expected[1])
    return output


@pytest.mark.parametrize("tokens", [1, 25, 80, None], ids=["one sequence", "few", "many", "all"])
@pytest.mark.parametrize("model", MODELS)
def test_the_gradient_is_that_of_one_graph(model, tokens):
    output = compare(case(model).chunked(tokens), dropout=True, alpha=0.3)
    extra = {"moe": {"balance", "z"}, "switch": {"balance"}, "expert_choice": {"z"}}
    assert set(output.terms) == {"infonce"} | extra.get(model, set())


@pytest.mark.parametrize("step", range(4))
def test_the_task_of_a_batch_picks_its_loss(step):
    chosen = case("mote", "task_aware").chunked(25)
    compare(Case(**{**vars(chosen), "step": step}), dropout=True)


@pytest.mark.parametrize("model", ["dense", "moe", "mote"])
def test_without_dropout_all_chunk_sizes_give_one_gradient(model):
    whole = case(model)
    take(expected := whole.objective(), whole.batch())
    for tokens in (1, 25):
        take(found := whole.chunked(tokens).objective(), whole.batch())
        assert_equal_gradients(gradients(found), gradients(expected))


def test_balance_and_z_loss_are_those_of_the_whole_batch():
    whole = case("moe")
    expected = take(whole.objective(), whole.batch()).terms
    found = take(whole.chunked(9).objective(), whole.batch())
    for name in ("balance", "z"):
        torch.testing.assert_close(found.terms[name], expected[name], atol=1e-7, rtol=1e-6)
    assert found.router.rows == whole.batch().layout.tokens  # each token counts once
    assert found.router.loads.sum(-1).tolist() == [2 * found.router.rows] * 2


def embeddings(objective):
    """How often the model ran, with and without a graph."""
    calls = []
    objective.embedder.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    return calls


def test_what_fits_in_a_chunk_is_embedded_once():
    whole = case()
    calls = embeddings(objective := whole.chunked(10_000).objective())
    take(objective, whole.batch())
    assert calls == [True]
    calls = embeddings(objective := whole.chunked(60).objective())
    take(objective, whole.batch())
    count = len(chunks(whole.batch().layout.lengths, 60))
    assert calls == [False] * count + [True] * count


class Held(torch.autograd.graph.saved_tensors_hooks):
    """The most bytes that graphs hold at a time, beside the weights."""

    def __init__(self, weights):
        super().__init__(self.pack, lambda box: box[0])
        self.weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self.now = self.most = 0

    def pack(self, tensor):
        box = Box([tensor])
        if tensor.untyped_storage().data_ptr() not in self.weights:
            size = tensor.numel() * tensor.element_size()
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(box, self.release, size)
        return box

    def release(self, size):
        self.now -= size


class Box(list):
    """A list whose end is noticed."""


def test_a_step_holds_the_graph_of_one_chunk_at_a_time():
    held = {}
    for tokens in (None, 40):
        whole = case().chunked(tokens)
        objective = whole.objective()
        held[tokens] = Held(objective.parameters())
        with held[tokens]:
            take(objective, whole.batch())
        assert held[tokens].now == 0
    count = len(chunks(whole.batch().layout.lengths, 40))
    assert count >= 4
    assert held[40].most < 1.5 * held[None].most / count


def test_half_precision_has_the_gradient_of_one_graph():
    half = case().chunked(25)
    with torch.autocast("cpu", torch.bfloat16):
        take(found := half.objective(), half.batch())
    vectors = half.objective()
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):  # sums of chunks in float32
        parts = [
            vectors.embedder(half.batch().tokens.select(torch.from_numpy(index)), 1.0).vectors
            for index in chunks(half.batch().layout.lengths, 25)
        ]
        order = [int(i) for index in chunks(half.batch().layout.lengths, 25) for i in index]
        total = vectors.loss(torch.cat(parts)[torch.tensor(order).argsort()], half.batch()).total
    total.backward()
    assert_equal_gradients(gradients(found), gradients(vectors), 1e-5)


def test_a_loss_that_is_not_a_number_ends_the_step():
    whole = case()
    objective = whole.objective()
    with torch.no_grad():
        next(objective.embedder.parameters()).fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match="step 4"):
        take(objective, whole.batch())
