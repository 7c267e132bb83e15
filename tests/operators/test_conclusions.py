"""From a checkout and its scan to operators, and what the commands say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscanner import api
from opscanner.errors import UsageError
from opscanner.operators import attribution
from opscanner.operators.attribution import conclude
from tests.frameworks.checkouts import NATIVE
from tests.operators.scans import ACT, LAUNCH, write_scan

YAML = f"{NATIVE}/native_functions.yaml"


@pytest.fixture
def db(tmp_path: Path) -> str:
    database = tmp_path / "scan.sqlite"
    scan_id = write_scan(tmp_path / "pytorch", database)
    assert conclude(str(database), scan_id) == []
    return str(database)


def functions(db: str, name: str) -> dict[str, tuple[str, str, int]]:
    (found,) = api.operator(name, db=db)
    return {row.function.rpartition("::")[2]: (row.through, row.confidence, row.distance) for row in found.functions}


def test_an_operator_is_served_by_what_its_kernel_reaches_and_its_gradient_by_other_functions(db: str) -> None:
    # act_out and the call of the stub in Activation.cpp were read from text, so nothing is certain.
    assert functions(db, "act") == {
        "act_kernel": ("", "likely", 2),
        "elementwise_act": ("", "likely", 3),
        "square": ("", "likely", 4),
    }
    assert functions(db, "act_backward") == {"act_backward_kernel": ("", "likely", 2)}


def test_a_path_leads_from_the_registration_to_the_function_step_by_step(db: str) -> None:
    (found,) = api.operator("act", db=db)
    (kernel,) = [row for row in found.functions if row.function.endswith("elementwise_act")]
    assert [(step.what, step.file, step.line) for step in kernel.path] == [
        ("native_functions act.out CUDA: act_out", YAML, 4),
        ("act_out", f"{NATIVE}/Activation.cpp", 3),
        ("act_stub", f"{NATIVE}/Activation.cpp", 4),
        ("at::native::(anonymous namespace)::act_kernel", ACT, 3),
        ("at::native::elementwise_act", ACT, 4),
    ]
    assert kernel.device == "cuda"
    assert kernel.formats == ("float16",)
    assert kernel.casts == (5, 6)


def test_a_step_into_another_unit_is_taken_by_name(db: str) -> None:
    (found,) = api.operator("act_backward", db=db)
    (kernel,) = found.functions
    assert [step.what for step in kernel.path] == [
        "native_functions act_backward CUDA: act_backward_cuda",
        "at::native::act_backward_cuda",
        "at::native::launch_act_backward",
        "at::native::act_backward_kernel",
    ]


def test_a_composite_operator_is_served_by_the_operators_that_it_calls(db: str) -> None:
    assert set(functions(db, "my_layer")) == {"act_kernel", "elementwise_act", "square"}
    (found,) = api.operator("my_layer", db=db)
    ((name, path),) = found.delegations
    assert name == "act"
    assert path[-1] == ("act", f"{NATIVE}/Activation.cpp", 7)
    assert {row.through for row in found.functions} == {"act"}


@pytest.mark.parametrize("name", ["act", "act_", "act.out", "aten::act_"])
def test_casts_of_an_operator_are_those_of_the_functions_that_serve_it(db: str, name: str) -> None:
    found = api.casts(db=db, operator=name)
    assert {(row.file, row.line) for row in found} == {(ACT, 5), (ACT, 6), (ACT, 31)}
    assert {row.operators for row in found} == {("act",)}


def test_casts_of_a_composite_operator_are_found_and_name_the_operator_they_belong_to(db: str) -> None:
    assert {row.operators for row in api.casts(db=db, operator="my_layer")} == {("act",)}


def test_arithmetic_of_an_operator_is_that_of_the_functions_that_serve_it(db: str) -> None:
    assert [(row.function, row.operators) for row in api.arithmetic(db=db, operator="act")] == [
        ("at::native::square", ("act",))
    ]
    assert api.arithmetic(db=db, operator="act_backward") == []


def test_an_operator_that_nobody_declares_is_a_usage_error_that_names_a_near_one(db: str) -> None:
    with pytest.raises(UsageError) as error:
        api.casts(db=db, operator="acl")
    assert "did you mean act" in error.value.hint


def test_the_list_counts_what_serves_an_operator(db: str) -> None:
    rows = {row.name: row for row in api.operators(db=db)}
    assert rows["act"][4:] == ("act", "forward", "other", YAML, 7, 2, 3, 3, 0)
    assert (rows["act_backward"].forward_name, rows["act_backward"].casts) == ("act", 1)
    assert (rows["my_layer"].functions, rows["my_layer"].casts) == (3, 3)
    assert "act_backward" not in {row.name for row in api.operators(db=db, device="cpu")}


def test_the_rate_counts_cast_sites_that_reach_an_operator(db: str) -> None:
    (rate,) = api.attribution_rates(db=db)
    # Three casts of act's functions and one of its gradient's; the uncalled kernel's reaches nobody.
    assert (rate.cast_sites, rate.attributed_cast_sites, rate.rate) == (5, 4, 0.8)
    assert LAUNCH in {row.file for row in api.casts(db=db) if not row.operators}


def test_what_many_operators_reach_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "SHARED_BY_OPERATORS", 0)
    database = tmp_path / "scan.sqlite"
    conclude(str(database), write_scan(tmp_path / "pytorch", database))
    assert api.sql("SELECT count(*) FROM attribution", db=str(database)).rows == ((0,),)
    assert api.sql("SELECT max(operators), count(*) FROM shared_function", db=str(database)).rows == ((1, 4),)


def test_conclusions_are_made_anew_and_stay_the_same(db: str) -> None:
    query = "SELECT operator, function, device, distance, path FROM operator_functions ORDER BY 1, 2, 3"
    before = api.sql(query, db=db).rows
    assert api.conclude_operators(db=db) == []
    assert api.sql(query, db=db).rows == before
    assert len(before) == 7


def test_sources_that_are_gone_cost_the_operators_and_not_the_scan(tmp_path: Path) -> None:
    database = tmp_path / "scan.sqlite"
    scan_id = write_scan(tmp_path / "pytorch", database)
    (tmp_path / "pytorch" / YAML).unlink()
    (warning,) = conclude(str(database), scan_id)
    assert "native_functions.yaml: cannot be read" in warning
    assert len(api.casts(db=str(database))) == 5
    assert api.operators(db=str(database)) == []


def test_the_views_join_operators_to_sites(db: str) -> None:
    casts = "SELECT DISTINCT operator, through, line, cast_direction FROM operator_casts WHERE file LIKE '%Launch.cu'"
    assert api.sql(casts, db=db).rows == (("act_backward", "", 21, "widen"),)
    arithmetic = "SELECT operator, through, operation, format FROM operator_arithmetic ORDER BY 1"
    assert api.sql(arithmetic, db=db).rows == (("act", "", "*", "float32"), ("my_layer", "act", "*", "float32"))
