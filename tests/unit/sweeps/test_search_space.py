from __future__ import annotations

import optuna
import pytest

from embedexp.config.errors import UserError
from embedexp.sweeps.search.grammar import from_overrides
from embedexp.sweeps.search.space import Choice, Number

optuna.logging.set_verbosity(optuna.logging.ERROR)


def drawn(space, trials=60, seed=0):
    """What random trials set, as lists of overrides."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    return [space.suggest(study.ask()) for _ in range(trials)]


def values(space, key, trials=60):
    found = [text for texts in drawn(space, trials) for text in texts]
    return {text.partition("=")[2] for text in found if text.startswith(f"{key}=")}


def test_what_is_not_swept_is_the_same_in_all_trials():
    fixed, space = from_overrides(["seed=3", "loss.temperature=interval(0.01,0.1)", "+a.b=1,2"])
    assert fixed == ["seed=3"]
    assert space.keys == ["loss.temperature", "+a.b"]


def test_a_range_keeps_hydras_meaning_its_stop_is_no_value():
    _, space = from_overrides(["a=range(0,5)", "b=range(0,5,2)", "c=range(3,0,-1)"])
    assert values(space, "a") == {"0", "1", "2", "3", "4"}
    assert values(space, "b") == {"0", "2", "4"}
    assert values(space, "c") == {"3", "2", "1"}


def test_a_range_of_fractions_gives_the_very_numbers_of_hydra():
    _, space = from_overrides(["a=range(0.1,0.5,0.1)"])
    assert values(space, "a", 200) == {"0.1", "0.2", "0.30000000000000004", "0.4"}


def test_an_interval_is_a_fraction_and_a_whole_one_says_so():
    _, space = from_overrides(["a=interval(1,3)", "b=int(interval(1,3))"])
    assert all(1 <= float(value) <= 3 for value in values(space, "a"))
    assert any(not float(value).is_integer() for value in values(space, "a"))
    assert values(space, "b") == {"1", "2", "3"}


def test_tag_log_draws_evenly_over_orders_of_magnitude():
    _, space = from_overrides(["a=tag(log,interval(1e-5,1e-1))"])
    found = [float(value) for value in values(space, "a", 400)]
    below = sum(value < 1e-3 for value in found) / len(found)
    assert 0.4 < below < 0.6  # half of the decades; drawn evenly it would be 1 %


def test_a_glob_chooses_from_the_options_of_a_group():
    _, space = from_overrides(["mask_schedule=glob(*,exclude=*eler*)"])
    (parameter,) = space.parameters
    assert isinstance(parameter, Choice)
    assert set(parameter.options) == {"bidirectional", "causal", "linear"}


def test_lists_and_null_can_be_chosen():
    _, space = from_overrides(["a=[1,2],null"])
    assert values(space, "a") == {"[1,2]", "null"}


def test_a_conditional_key_is_set_only_where_its_condition_holds():
    _, space = from_overrides(
        ["routing.num_experts=int(interval(2,8))", "routing=dense,moe,switch"],
        when={"routing.num_experts": {"routing": ["moe", "switch"]}},
    )
    assert space.keys == ["routing", "routing.num_experts"]  # after what it depends on
    for texts in drawn(space):
        assert len(texts) == (1 if texts[0] == "routing=dense" else 2)


def test_a_later_sweep_of_a_key_replaces_an_earlier_one():
    _, space = from_overrides(["a=interval(0,1)", "a=interval(2,3)"])
    assert space.parameters == (Number("a", 2.0, 3.0),)


@pytest.mark.parametrize(
    ("overrides", "when", "told"),
    [
        (["a=1"], {}, "nothing is searched"),
        (["a=interval(1,0)"], {}, "no interval"),
        (["a=tag(log,interval(0,1))"], {}, "no logarithm"),
        (["a=tag(lg,interval(1,2))"], {}, "no tag lg"),
        (["seed=0,1,2"], {}, "lucky"),
        (["a=1,2", "b=1,2"], {"b": {"aa": 1}}, "did you mean a"),
        (["a=1,2", "b=1,2"], {"b": {"a": 3}}, "which it never is"),
        (["a=1,2", "b=1,2"], {"b": {"a": 1}, "a": {"b": 1}}, "wait for each other"),
        (["a=interval(0,1)", "b=1,2"], {"b": {"a": 1}}, "is a number"),
        (["a=1,2"], {"c": {"a": 1}}, "not searched"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(overrides, when, told):
    with pytest.raises(UserError, match=told):
        from_overrides(overrides, when=when)
