"""The study's rows: cells, ranges over the seeds, and which published figures appear again."""

from __future__ import annotations

from typing import Any

from opscanner.dynamic.study import StudyMeasurement, StudyRow
from opscanner.dynamic.study_operators import Published
from opscanner.dynamic.study_strategies import StrategyMeasurement, StrategyRow
from opscanner.report import study as report


def measurement(seed: int, absolute: float, difference: float, relative: float = 0.5) -> StudyMeasurement:
    return StudyMeasurement(
        seed=seed, count=10, max_absolute_error=absolute, wider_difference=difference, max_relative_error=relative,
        max_ulp=2.0 + seed, mean_ulp=0.25, max_scaled_ulp=1.5, over_1_ulp=3, class_mismatches=1, undecided=0,
        worst_inputs={"x": -0.5}, worst_expected=-0.25, worst_got=-0.5,
    )  # fmt: skip


def row(*measurements: StudyMeasurement, **changes: Any) -> StudyRow:
    fields: dict[str, Any] = {
        "operator": "selu", "direction": "forward", "framework": "tensorflow", "versions": {"tensorflow": "2.21.0"},
        "device": "cpu", "format": "bfloat16", "setting": "honest", "tensors": 2, "measurements": measurements,
        "published": Published(0.24918, 0.26886918415775085, 1.0), "alone": 0, "differ_alone": 0,
        "alone_max_absolute_error": None, "call": "raw.Selu(features=x)", "reference": "selu(x)", "note": "",
    }  # fmt: skip
    return StudyRow(**{**fields, **changes})


def cells(columns: tuple[str, ...], values: Any) -> list[tuple[str, Any]]:
    return list(zip(columns, values, strict=True))


def test_a_line_has_the_median_and_the_range_beside_the_published_figure() -> None:
    one = row(*(measurement(seed, error, error + 1) for seed, error in enumerate((0.5, 0.125, 0.25))))
    (line,) = (cells(report.COLUMNS, values) for values in report.rows([one]))
    assert line[3:9] == [
        ("max abs", 0.25), ("over seeds", "0.125..0.5"), ("published", 0.26886918415775085),
        ("to wider", 1.25), ("over seeds", "1.125..1.5"), ("published", 0.24918),
    ]  # fmt: skip
    assert dict(line[9:]) == {
        "max ULP": 4.0, "row's ULP": 1.5, "mean ULP": 0.25, "max rel": 0.5, "> 1 ULP": 9, "of": 30, "nan/inf": 3,
        "note": "",
    }  # fmt: skip


def test_a_csv_line_has_every_range_and_what_reappears() -> None:
    one = row(measurement(0, 0.2688691841, 0.249181), measurement(1, 0.5, 0.3), note="why", alone=7, differ_alone=2)
    (line,) = (dict(cells(report.CSV_COLUMNS, values)) for values in report.csv_rows([one]))
    assert (line["max_absolute_error_low"], line["max_absolute_error_high"]) == (0.2688691841, 0.5)
    assert line["versions"] == "tensorflow 2.21.0"
    assert line["difference_reappears"] == "in 1 of 2", "to the five decimals that the issue gives"
    assert line["absolute_error_reappears"] == "in 1 of 2"
    assert line["relative_error_reappears"] == "above"
    assert (line["seeds"], line["alone"], line["differ_alone"], line["note"]) == (2, 7, 2, "why")


def test_a_published_figure_is_among_the_seeds_within_their_range_or_outside() -> None:
    assert report.reappears(0.24918, [0.249184, 0.3], 0.5e-5, 0) == "in 1 of 2"
    assert report.reappears(0.24918, [0.24919, 0.3], 0.5e-5, 0) == "below"
    assert report.reappears(0.25, [0.2, 0.3], 0.5e-5, 0) == "within"
    assert report.reappears(0.4, [0.2, 0.3], 0.5e-5, 0) == "above"
    assert report.reappears(None, [0.2], 0.5e-5, 0) == ""


def test_remarks_count_what_reappears_and_number_the_notes() -> None:
    first = row(measurement(0, 0.26886918415775085, 0.249184), note="mind the gap", alone=50, differ_alone=2,
                alone_max_absolute_error=0.25)  # fmt: skip
    second = row(measurement(0, 9.0, 9.0), operator="elu", note="mind the gap", published=Published(None, 10.0, None))
    assert list(report.remarks([first, second])) == [
        "[1] mind the gap",
        "largest differences of the issue: 1 of 1 appear again to the digit, 0 lie within the seeds' range",
        "largest errors of the study's files: 1 of 2 appear again to the digit, 0 lie within the seeds' range; "
        "outside of it: elu of tensorflow",
        "largest relative errors of the study's files: 0 of 1 appear again to the digit, 0 lie within the seeds' "
        "range; outside of it: selu of tensorflow",
        "selu of tensorflow in bfloat16: 2 elements of 50 tensors come out otherwise when each tensor is a call of its "
        "own (largest error 0.25)",
    ]
    assert [values[-1] for values in report.rows([first, second])] == ["[1]", "[1]"]


def test_a_strategys_line_shows_where_the_class_is_wrong() -> None:
    def found(seed: int, ulp: float, mismatches: int) -> StrategyMeasurement:
        return StrategyMeasurement(
            seed=seed, tensors=4, count=20, elapsed_s=0.1, max_ulp=ulp, max_absolute_error=0.5, max_scaled_ulp=1.0,
            over_1_ulp=1, class_mismatches=mismatches, undecided=0, worst_inputs={"x": [1.5, float(seed)]},
            worst_expected=1.0, worst_got=2.0,
        )  # fmt: skip

    one = StrategyRow(
        "log_softmax", "forward", "pytorch", {"torch": "2.13.0"}, "cpu", "float16", "predoo", 4,
        (found(0, 9.0, 0), found(1, float("nan"), 2), found(2, 5.0, 0)),
    )  # fmt: skip
    (line,) = (dict(cells(report.STRATEGY_COLUMNS, values)) for values in report.strategy_rows([one]))
    assert (line["at"], line["nan/inf"], line["max ULP"], line["tensors"]) == ("x=[1.5, 1]", 2, 9.0, 12)
    (full,) = (dict(cells(report.STRATEGY_CSV_COLUMNS, values)) for values in report.strategy_csv_rows([one]))
    assert (full["max_ulp_low"], full["max_ulp_median"], full["max_ulp_high"]) == (5.0, 7.0, 9.0)
    assert (full["budget"], full["seeds"], full["versions"]) == (4, 3, "torch 2.13.0")
