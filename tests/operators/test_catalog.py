"""The catalog: pairs, operators alone and references come together, and a wrong row says where it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opscanner.errors import OpscannerError, UsageError
from opscanner.operators.catalog import find_operators, load_catalog, read_catalog, stray_references
from opscanner.operators.pairs import data_folder, load_pairs

PAIRS_HEADER = (
    "id,direction,kind,module,torch,aten,aten_cuda,tensorflow,composed_in,inputs,format,torch_call,tensorflow_call,"
    "error_class,terms,note,unchecked_because,result,difference,bound,aten_ran,tensorflow_ran"
)
ALONE_HEADER = "id,direction,kind,module,framework,inputs,call"
REFERENCE_HEADER = "id,reference,elementwise,domain,budget,note"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with one pair, sqrt."""
    row = 'sqrt,forward,unary,math,torch.sqrt,sqrt,,Sqrt,,"x: float (4) in [0, 9]",float64,torch.sqrt(x),raw.Sqrt(x=x)'
    (tmp_path / "operator_pairs.csv").write_text(f"{PAIRS_HEADER}\n{row},rounded,1,,,checked,0.0,0.0,sqrt,Sqrt\n")
    (tmp_path / "references").mkdir()
    return tmp_path


def test_every_pair_is_an_operator_with_two_calls() -> None:
    by_id = {one.id: one for one in load_catalog()}
    for pair in load_pairs():
        assert by_id[pair.id].calls == {"pytorch": pair.torch_call, "tensorflow": pair.tensorflow_call}
        assert by_id[pair.id].pair == pair


def test_the_references_that_come_along_belong_to_operators() -> None:
    assert stray_references(data_folder()) == ()


def test_domains_are_conditions_over_inputs() -> None:
    strays = {
        one.id: one.domain
        for one in load_catalog()
        if not set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", one.domain))
        <= {"np", "abs", *(item.name for item in one.inputs)}
    }
    assert strays == {}


def test_infinite_upstream_gradients_are_in_no_domain() -> None:
    # inf * 0 is NaN by one formula and 0 by another: neither framework promises anything. Plain sums of dy do.
    gradients = [one for one in load_catalog() if one.id.partition(".")[0].endswith("_grad") and one.reference]
    fed = {
        one.id
        for one in gradients
        if "dy" in {item.name for item in one.inputs}
        and re.search(r"\bdy\b", one.reference)
        and not re.search(r"np\.isfinite\(dy\)|dy > 0", one.domain)
        and one.budget != "exact"
    }
    assert {name for name in fed if "grad(" in next(one.reference for one in gradients if one.id == name)} == set()
    assert {"softplus_grad", "silu_grad", "mish_grad", "hardswish_grad", "relu6_grad", "elu_grad"} & fed == set()


def test_without_further_tables_pairs_have_no_reference(tables: Path) -> None:
    (operator,) = read_catalog(tables)
    assert (operator.id, operator.reference, operator.elementwise, operator.domain) == ("sqrt", "", False, "")


def test_a_reference_joins_its_operator_by_id(tables: Path) -> None:
    (tables / "references" / "roots.csv").write_text(
        f"{REFERENCE_HEADER}\nsqrt,sqrt(x),yes,(x > 0) & (x < 9),rounded,IEEE 754-2019 5.4.1\n"
    )
    (operator,) = read_catalog(tables)
    assert (operator.reference, operator.elementwise, operator.domain) == ("sqrt(x)", True, "(x > 0) & (x < 9)")
    assert (operator.budget, operator.note) == ("rounded", "IEEE 754-2019 5.4.1")


def test_an_operator_alone_has_one_call(tables: Path) -> None:
    (tables / "operators_alone.csv").write_text(
        f'{ALONE_HEADER}\ncbrt,forward,unary,math,tensorflow,"x: float (4) in [0, 9]",tf.pow(x)\n'
    )
    alone = read_catalog(tables)[1]
    assert (alone.id, alone.calls, alone.pair) == ("cbrt", {"tensorflow": "tf.pow(x)"}, None)
    assert alone.inputs[0].shape == (4,)


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        ("operators_alone.csv", f"{ALONE_HEADER}\nsqrt,forward,unary,math,pytorch,x: float (4),f(x)\n", "taken"),
        ("operators_alone.csv", f"{ALONE_HEADER}\na,forward,unary,math,jax,x: float (4),f(x)\n", "'jax'"),
        ("operators_alone.csv", "id,call\na,f(x)\n", "operators_alone.csv:2: no direction"),
        ("references/a.csv", f"{REFERENCE_HEADER}\nsqrt,sqrt(x),perhaps,,,\n", "a.csv:2: elementwise is 'perhaps'"),
        ("references/a.csv", f"{REFERENCE_HEADER}\nsqrt,sqrt(x),yes,,,\nsqrt,x,no,,,\n", "has a reference at a.csv:2"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(tables: Path, table: str, text: str, said: str) -> None:
    (tables / table).write_text(text)
    with pytest.raises(OpscannerError, match=said):
        read_catalog(tables)


def test_a_reference_without_operator_is_told(tables: Path) -> None:
    (tables / "references" / "a.csv").write_text(f"{REFERENCE_HEADER}\nsqrtt,sqrt(x),yes,,,\n")
    assert stray_references(tables) == ("a.csv:2: sqrtt",)


def test_a_name_finds_its_variants_and_with_backward_its_gradients() -> None:
    variants = {"softmax", "softmax.long", "softmax.sparse"}
    assert {one.id for one in find_operators("softmax")} >= variants
    assert {one.id for one in find_operators("softmax", backward=True)} >= {*variants, "softmax_grad"}
    assert [one.id for one in find_operators("softmax.long")] == ["softmax.long"]


def test_names_of_either_framework_find_the_operator() -> None:
    assert [one.id for one in find_operators("SeluGrad")] == ["selu_grad"]
    assert "elu" in [one.id for one in find_operators("torch.nn.functional.elu")]
    assert "elu" in [one.id for one in find_operators("Elu")]


def test_an_unknown_name_is_answered_with_what_is_spelled_alike() -> None:
    with pytest.raises(UsageError, match="'softmaxx'") as told:
        find_operators("softmaxx")
    assert "softmax" in told.value.hint


def test_an_operator_without_a_reference_says_why() -> None:
    silent = [one.id for one in load_catalog() if not one.reference and not one.note.startswith("none: ")]
    assert silent == []


def test_gradients_that_are_handed_a_rounded_output_have_the_scale_of_their_terms() -> None:
    scaled = {one.id for one in load_catalog() if one.scale}
    assert scaled == {"softmax_grad", "softmax_grad.columns", "log_softmax_grad", "log_softmax_grad.columns"}
