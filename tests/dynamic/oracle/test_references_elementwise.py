"""References of elementwise operators: all rows against balls and both frameworks, some against worked values."""

import csv
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from opscanner.dynamic.oracle import evaluate_reference, refine
from opscanner.operators.catalog import load_catalog
from opscanner.operators.pairs import data_folder
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_of

KINDS = {
    *("unary", "unary gradient", "binary", "binary gradient", "activation", "activation gradient"),
    *("ternary", "elementwise", "n-ary"),
}


def rows():
    with (data_folder() / "references" / "elementwise.csv").open(newline="", encoding="utf-8") as lines:
        names = {row["id"] for row in csv.DictReader(lines)}
    return [one for one in load_catalog() if one.id in names]


ROWS = rows()


def test_every_elementwise_pair_has_a_reference():
    assert [one.id for one in load_catalog() if one.pair and one.kind in KINDS and not one.reference] == []


def values_of_all_exponents(count, generator):
    values = np.ldexp(1 + generator.random(count), generator.integers(-149, 128, count))
    values *= generator.choice([-1.0, 1.0], count)
    values[::3] = generator.normal(size=len(values[::3])) * 4
    values[::31] = generator.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 3, 6], len(values[::31]))
    return round_to_format(values, "float32")


def inputs_in_domain(operator, count=400):
    """Values of float32 for each float input, all exponents and special values, where the row's domain holds."""
    generator = np.random.default_rng(8)
    made = {}
    with np.errstate(all="ignore"):
        for item in operator.inputs:
            if item.kind == "expression":
                value = np.asarray(eval(item.expression, {"np": np, **made}))
                made[item.name] = round_to_format(value, "float32") if value.dtype.kind == "f" else value
            elif item.kind == "float":
                made[item.name] = values_of_all_exponents(count, generator)
            elif item.kind == "bool":
                made[item.name] = generator.random(count) < 0.5
            else:
                made[item.name] = generator.integers(int(item.low), int(item.high) + 1, count)
        kept = np.broadcast_to(eval(operator.domain or "True", {"np": np, **made}), (count,))
    return {name: value[kept] for name, value in made.items()}


@pytest.mark.parametrize("operator", [one for one in ROWS if one.elementwise], ids=lambda one: one.id)
def test_all_tiers_say_the_same(operator):
    inputs = inputs_in_domain(operator)
    size = next(iter(inputs.values())).size
    assert size > 10
    quick = evaluate_reference(operator.reference, inputs, "float32", elementwise=True)
    exact = refine(operator.reference, inputs, "float32", np.arange(size))
    for one, other in zip(quick, exact, strict=True):
        assert not one.undecided.any()
        assert not other.undecided.any()
        with np.errstate(all="ignore"):
            beyond = (np.abs(one.values) > 2.0**128) & (np.abs(other.values) > 2.0**128)
            distance = np.abs((one.values - other.values) + (one.low - other.low)) / ulp_of(other.values, "float32")
        same = (one.values == other.values) | (np.isnan(one.values) & np.isnan(other.values)) | beyond
        assert np.max(np.where(same, 0, distance)) < 2.0**-6
        finite = np.isfinite(one.values) & np.isfinite(other.values)
        np.testing.assert_array_equal(np.sign(one.values[~finite]), np.sign(other.values[~finite]))


@pytest.mark.parametrize("kind", sorted({one.kind for one in ROWS}))
def test_both_frameworks_agree_with_the_references(kind, monkeypatch):
    for framework in ("torch", "tensorflow"):  # not imported here: the runners set their environment first
        if importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed")
    path = Path(__file__).resolve().parents[3] / "scripts" / "check_references.py"
    specification = importlib.util.spec_from_file_location("check_references", path)
    script = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "check_references", script)
    specification.loader.exec_module(script)
    found = {one.id: script.check(one) for one in ROWS if one.kind == kind}
    assert {name: faults for name, faults in found.items() if faults} == {}


def reference(identifier, **inputs):
    operator = next(one for one in ROWS if one.id == identifier)
    arrays = {name: np.asarray(value, dtype=float) for name, value in inputs.items()}
    return evaluate_reference(operator.reference, arrays, "float32", operator.elementwise)


@pytest.mark.parametrize(
    ("identifier", "inputs", "expected"),
    [
        ("elu", {"x": [-1e-10, 2.0, -math.inf]}, [-1e-10 + 5e-21, 2.0, -1.0]),
        ("selu", {"x": [-math.inf, 1.0]}, [-1.7580993408473768, 1.0507009873554805]),
        ("softplus", {"x": [0.0, -100.0, 1000.0]}, [math.log(2), math.exp(-100), 1000.0]),
        ("log_sigmoid", {"x": [0.0, 100.0, -1000.0]}, [-math.log(2), -math.exp(-100), -1000.0]),
        ("gelu.erf", {"x": [1.0, -10.0]}, [0.8413447460685429, -10 * 7.61985302416052606e-24]),  # normal table
        ("gelu.tanh", {"x": [1.0]}, [0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715))]),
        ("silu", {"x": [-90.0]}, [-90 * math.exp(-90)]),
        ("mish", {"x": [0.0, -60.0]}, [0.0, -60 * math.exp(-60)]),
        ("hardswish", {"x": [-3.0, 1.0, 3.0]}, [0.0, 2 / 3, 3.0]),
        ("hardsigmoid", {"x": [-4.0, 0.0, 1.0, 4.0]}, [0.0, 0.5, 2 / 3, 1.0]),
        ("threshold", {"x": [-1.0, 0.0, 2.0, math.nan]}, [0.0, 0.0, 2.0, math.nan]),
        ("relu_grad", {"x": [-1.0, 0.0, 2.0], "dy": [3.0, 3.0, 3.0]}, [0.0, 0.0, 3.0]),
        ("selu_grad", {"x": [0, 0], "y": [-1.0, 1.0], "dy": [2.0, 2.0]}, [2 * 0.7580993408473768, 2.101401974710961]),
        ("tanh_grad", {"x": [0.0], "y": [1 - 2.0**-11], "dy": [1.0]}, [2.0**-10 - 2.0**-22]),
        ("round", {"x": [0.5, 1.5, 2.5, -0.5]}, [0.0, 2.0, 2.0, -0.0]),
        ("floor_divide", {"x": [560.0, -7.0, 1.0], "y": [3.0, 2.0, 0.1]}, [186.0, -4.0, 9.0]),  # 0.1 is above 1/10
        ("remainder", {"x": [-7.0, 7.0], "y": [3.0, -3.0]}, [2.0, -2.0]),
        ("fmod", {"x": [-7.0, 7.0, 5.0], "y": [3.0, -3.0, math.inf]}, [-1.0, 1.0, 5.0]),
        ("xlogy", {"x": [0.0, 2.0, 0.0], "y": [0.0, math.e, -1.0]}, [0.0, 2.0, 0.0]),
        ("logaddexp", {"x": [0.0, -1000.0], "y": [0.0, -1000.0]}, [math.log(2), -1000 + math.log(2)]),
        ("hypot", {"x": [3e30], "y": [4e30]}, [5e30]),
        ("logit", {"x": [0.5, 0.75, 0.0, 1.0, 2.0]}, [0.0, math.log(3), -math.inf, math.inf, math.nan]),
        ("nextafter", {"x": [1.0, 0.0, 3.4028234663852886e38], "y": [2.0, -1.0, math.inf]},
         [1 + 2.0**-23, -(2.0**-149), math.inf]),
        ("digamma", {"x": [1.0, 0.5]}, [-0.5772156649015329, -1.9635100260214235]),  # DLMF 5.4.12, 5.4.13
        ("i0", {"x": [math.inf, 1.0]}, [math.inf, 1.2660658777520084]),  # DLMF table of A&S 9.8
        ("special_ndtri", {"x": [0.0, 0.5, 0.975]}, [-math.inf, 0.0, 1.959963984540054]),
        ("polygamma", {"x": [1.0]}, [-2 * 1.2020569031595942]),  # -2 zeta(3)
        # mpmath 1.3 with 40 digits. Arb's lower function alone gives a ball of radius 1e1120 for the first.
        ("igamma", {"x": [6308.0, 9999.0], "y": [5324.0, 9998.0]}, [1.754381231550943e-39, 0.4973401527897688]),
    ],
)  # fmt: skip
def test_worked_values(identifier, inputs, expected):
    (found,) = reference(identifier, **inputs)
    np.testing.assert_allclose(found.values, expected, rtol=2e-15)
    assert not found.undecided.any()


def test_the_next_value_is_of_the_tested_format():
    one, two = np.array([1.0]), np.array([2.0])
    for format_, step in (("float16", 2.0**-10), ("bfloat16", 2.0**-7), ("float32", 2.0**-23)):
        (found,) = evaluate_reference("next_after(x, y, format_)", {"x": one, "y": two}, format_, elementwise=True)
        assert found.values.tolist() == [1 + step]
