"""One table holds each activation's name, cost class and kernel instruction."""

from __future__ import annotations

from collections import Counter

import pytest

import pplconv
from asm import contract
from pplconv._kernels import INSTRUCTIONS
from pplconv.activations import (
    CLIPS,
    COST_CLASSES,
    CURVES,
    IN_STORE,
    KINDS,
    TRIED,
    WORDS,
    documentation,
    forms,
    passes,
)
from pplconv.arguments.activation import activation_of


def test_the_table_has_the_values_of_the_contract():
    assert INSTRUCTIONS == contract.INSTRUCTIONS
    assert INSTRUCTIONS["COPY"] == IN_STORE


def test_each_activation_of_the_contract_is_a_kind():
    codes = Counter(kind.code for kind in KINDS.values() if kind.code != IN_STORE)
    # leaky_relu has one slope for all channels, prelu one for each.
    assert codes[INSTRUCTIONS["SLOPE"]] == 2
    assert set(codes) >= {INSTRUCTIONS[name] for name in contract.CURVES}


def test_only_what_the_store_does_is_free():
    for kind in KINDS.values():
        assert kind.cost in COST_CLASSES
        assert (kind.cost == COST_CLASSES[0]) is (kind.code == IN_STORE)


@pytest.mark.parametrize("cost", COST_CLASSES)
def test_a_class_is_tried_with_one_of_its_own(cost):
    assert KINDS[TRIED[cost]].cost == cost


def test_every_form_of_the_argument_has_a_row():
    forms = [
        None, *CLIPS, ("clip", -1, 1), ("leaky_relu", 0.1), ("prelu", [0.1, 0.2]), ("prelu", 0.1),
        *CURVES,
    ]  # fmt: skip
    assert {activation_of(form, 2).kind for form in forms} == set(KINDS)
    assert activation_of("relu6", 2).bounds == (0, 6)


def test_the_words_of_stubs_are_those_of_the_table():
    assert (*CLIPS, *CURVES) == WORDS


def test_documents_name_every_form():
    for text in (pplconv.conv2d.__doc__, documentation(""), forms()):
        assert "{" not in text.partition("activation")[2].partition("residual")[0]
        for name in (*CLIPS, *KINDS):
            assert f'"{name}"' in text or name == "none"
    assert all(len(line) <= 100 for line in pplconv.conv2d.__doc__.splitlines())


def test_onnx_and_torch_have_one_name_each():
    for kind in (KINDS[name] for name in CURVES):
        assert kind.onnx and kind.torch and kind.formula
    assert len({KINDS[name].onnx for name in CURVES}) == len(CURVES)


def test_a_pass_is_listed_by_what_it_costs():
    assert passes() == {"slope": ["leaky_relu", "prelu", "hardswish"], "exp": passes()["exp"]}
    assert {"sigmoid", "silu"} <= set(passes()["exp"])
