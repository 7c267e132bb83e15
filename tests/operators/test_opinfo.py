"""OpInfo as a catalog: calls that run, in the ranges of PyTorch's own samples, the same each time they are read."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from opscanner.dynamic.measure import Plan, measure_operator, operator_by_id
from opscanner.errors import UsageError
from opscanner.measurements import Status
from opscanner.operators import opinfo
from opscanner.operators.opinfo import find_opinfo_operators, in_catalog, opinfo_operator
from opscanner.testing import choose_operators

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "expecttest"))),
    reason="TORCH OR EXPECTTEST IS NOT INSTALLED: NOTHING OF OPINFO WAS READ",
)


def test_an_operator_that_no_table_holds_is_called_as_opinfo_calls_it() -> None:
    found = find_opinfo_operators("nn.functional.pairwise_distance")
    assert {one.calls["pytorch"] for one in found} >= {
        "F.pairwise_distance(x0, x1)",
        "F.pairwise_distance(x0, x1, keepdim=True)",
    }
    assert [item.kind for item in found[0].inputs] == ["float", "float"]


def test_values_stay_where_pytorchs_samples_are() -> None:
    # UnaryUfuncInfo("logit", domain=(0, 1)) in common_methods_invocations.py.
    (plain,) = (one for one in find_opinfo_operators("logit") if one.calls["pytorch"] == "torch.logit(x0)")
    (item,) = plain.inputs
    assert 0 < item.low < 0.1
    assert 0.9 < item.high < 1
    assert plain.elementwise
    assert plain.kind == "unary"


def test_a_matrix_that_must_have_a_cholesky_factor_keeps_its_values() -> None:
    (lower,) = (one for one in find_opinfo_operators("cholesky") if "upper=False" in one.calls["pytorch"])
    (item,) = lower.inputs
    assert item.kind == "expression"
    matrix = eval(item.expression, {"np": np})
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_gradients_come_when_they_are_asked_for() -> None:
    forward = find_opinfo_operators("special.erfcx")
    both = find_opinfo_operators("special.log_ndtr", backward=True)
    assert {one.direction for one in forward} == {"forward"}
    assert both[1].id == f"{both[0].id}_grad"
    assert both[1].calls["pytorch"] == "grad(lambda x0: torch.special.log_ndtr(x0), (x0,), dy)"


def test_reading_again_gives_the_same_and_moves_no_random_numbers() -> None:
    import torch

    from opscanner.frameworks.pytorch.opinfo import calls_of

    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)
    once = calls_of("cdist")
    assert torch.equal(torch.rand(1), first)
    assert calls_of("cdist") == once
    assert once


def test_an_id_names_the_same_operator_in_another_process() -> None:
    one = find_opinfo_operators("log2")[0]
    assert one.id == "opinfo:log2:0"
    opinfo._operators.cache_clear()
    assert opinfo_operator(one.id) == one
    assert operator_by_id(one.id).calls == one.calls
    with pytest.raises(UsageError, match="opinfo:log2:77"):
        opinfo_operator("opinfo:log2:77")


def test_patterns_mean_what_the_catalog_lacks() -> None:
    assert in_catalog("nn.functional.elu")
    assert in_catalog("special.i0e")
    assert not in_catalog("special.legendre_polynomial_p")
    found = {one.id.split(":")[1] for one in find_opinfo_operators("opinfo:special.*")}
    assert "special.legendre_polynomial_p" in found
    assert "special.i0e" not in found


def test_what_nobody_knows_is_answered_by_the_catalog() -> None:
    with pytest.raises(UsageError, match="'softmx'") as told:
        choose_operators(["softmx"], everything=False, backward=False)
    assert "softmax" in told.value.hint
    with pytest.raises(UsageError, match="there is no such operator"):
        choose_operators(["opinfo:softmx"], everything=False, backward=False)
    with pytest.raises(UsageError, match="no sample can be called"):
        choose_operators(["opinfo:nn.functional.dropout"], everything=False, backward=False)


def test_names_of_the_catalog_are_the_catalogs_and_others_opinfos() -> None:
    assert choose_operators(["elu"], everything=False, backward=False)[0].id == "elu"
    (one,) = choose_operators(["torch.special.erfcx"], everything=False, backward=False)
    assert one.id == "opinfo:special.erfcx:0"


def test_results_are_held_against_the_operators_own_float64_run() -> None:
    operator = opinfo_operator("opinfo:special.erfcx:0")
    rows = measure_operator(operator, "float32", Plan(("pytorch",), strategies=("random",)))
    assert rows[0].status is Status.RAN
    assert rows[0].tier == "own float64"
    assert rows[0].count > 1000


def test_formats_are_those_that_pytorch_declares() -> None:
    # OpInfo('cholesky', dtypes=floating_and_complex_types()) and UnaryUfuncInfo('exp2', dtypes=all_types_and(bool,
    # half, bfloat16)) in torch 2.13.
    assert opinfo.formats_of("cholesky", "cpu") == {"float32", "float64"}
    assert opinfo.formats_of("exp2", "cpu") == {"float16", "bfloat16", "float32", "float64"}
    assert opinfo.formats_of("exp2", "cuda:0", backward=True) >= {"float16", "bfloat16", "float32", "float64"}
