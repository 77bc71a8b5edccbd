"""One table says what each activation costs and what kernels call it."""

from __future__ import annotations

from collections import Counter

import pytest

from asm import contract
from pplconv._kernels import INSTRUCTIONS
from pplconv.api.activation import activation_of
from pplconv.activations import COST_CLASSES, IN_STORE, KINDS, TRIED


def test_the_table_has_the_values_of_the_contract():
    assert INSTRUCTIONS == contract.INSTRUCTIONS
    assert INSTRUCTIONS["COPY"] == IN_STORE


def test_each_activation_of_the_contract_is_a_kind():
    codes = Counter(kind.code for kind in KINDS.values() if kind.code != IN_STORE)
    # One slope for all, or one for each channel.
    assert codes[INSTRUCTIONS["SLOPE"]] == 2
    assert set(codes) == {INSTRUCTIONS[name] for name in ("SLOPE", "HARDSWISH", "SIGMOID", "SILU")}


def test_only_what_the_store_does_is_free():
    for kind in KINDS.values():
        assert kind.cost in COST_CLASSES
        assert (kind.cost == COST_CLASSES[0]) is (kind.code == IN_STORE)


@pytest.mark.parametrize("cost", COST_CLASSES)
def test_a_class_is_tried_with_one_of_its_own(cost):
    assert KINDS[TRIED[cost]].cost == cost


def test_every_form_of_the_argument_has_a_row():
    forms = [
        None, "relu", "relu6", ("clip", -1, 1), ("leaky_relu", 0.1), ("prelu", [0.1, 0.2]),
        ("prelu", 0.1), "hardswish", "sigmoid", "silu",
    ]  # fmt: skip
    assert {activation_of(form, 2).kind for form in forms} == set(KINDS)
