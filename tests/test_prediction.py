"""Agreement of a ranking with what was measured, on rankings worked out by hand."""

from __future__ import annotations

import itertools
import math

import pytest

from opscanner.measurements import Measurement, Status, Verdict
from opscanner.prediction import Prediction, agreement, agreement_by, precision_at


def row(score: float, fault: bool, **more: str) -> Prediction:
    verdict = Verdict.BEYOND_UPCAST if fault else Verdict.CORRECT
    worst = Measurement(
        "x", "forward", "pytorch", "2", "float16", "cpu", "contiguous", "random", 0, Status.RAN, verdict
    )
    named = {"operator": "x", "framework": "pytorch", "format": "float16", "direction": "forward", "device": "cpu"}
    return Prediction(**{**named, "cause": "", **more}, score=score, fault=fault, worst=worst)


def test_precision_and_recall_are_of_the_rows_with_a_score():
    found = agreement([row(0.9, True), row(0.5, False), row(0.0, True), row(0.0, False)])
    assert (found.precision, found.recall, found.base_rate) == (0.5, 0.5, 0.5)


def test_average_precision_of_a_ranking_without_ties():
    # Faults at ranks 1 and 3: (1/1 + 2/3) / 2.
    found = agreement([row(0.9, True), row(0.8, False), row(0.7, True), row(0.0, False)])
    assert found.average_precision == pytest.approx(5 / 6)


def test_rows_of_equal_score_count_as_all_their_orders_would_on_average():
    faults = (True, False, True, False)
    by_order = []
    for order in itertools.permutations(faults):
        ranks = [rank for rank, fault in enumerate(order, 1) if fault]
        by_order.append(sum(hits / rank for hits, rank in enumerate(ranks, 1)) / len(ranks))
    found = agreement([row(0.5, fault) for fault in faults])
    assert found.average_precision == pytest.approx(sum(by_order) / len(by_order))


def test_precision_at_k_shares_the_rows_that_tie_at_the_end():
    rows = [row(0.9, True), row(0.5, True), row(0.5, False), row(0.1, False)]
    assert precision_at(rows, 1) == 1.0
    assert precision_at(rows, 2) == 0.75
    assert math.isnan(precision_at(rows, 5))


def test_without_faults_there_is_no_recall():
    found = agreement([row(0.9, False)])
    assert math.isnan(found.recall)
    assert math.isnan(found.average_precision)


def test_it_is_told_by_cause():
    found = agreement_by([row(0.9, True, cause="accumulation"), row(0.9, False, cause="composite")], "cause")
    assert found["accumulation"].precision == 1.0
    assert found["composite"].precision == 0.0


def test_calls_put_together_here_say_nothing_of_the_scan():
    # hypot exists in torch alone; its formula in TensorFlow is four calls of this project's choice.
    from types import SimpleNamespace

    from opscanner.prediction import predictions

    def row(framework, expression):
        return Measurement(
            operator="hypot", direction="forward", framework=framework, version="1", format="float16", device="cpu",
            layout="contiguous", strategy="boundary", seed=0, status=Status.RAN, verdict=Verdict.CLASS_MISMATCH,
            expression=expression,
        )  # fmt: skip

    def side(framework):
        return SimpleNamespace(framework=framework, known=True, risk=SimpleNamespace(score=1.0, cause=None))

    comparison = SimpleNamespace(
        pairs=("hypot",), format="float16", direction="forward", device="cpu", first=side("pytorch"),
        second=side("tensorflow"),
    )  # fmt: skip
    measured = [
        row("pytorch", "torch.hypot(x, y)"),
        row("tensorflow", "raw.Sqrt(x=raw.AddV2(x=raw.Square(x=x), y=raw.Square(x=y)))"),
    ]
    assert [one.framework for one in predictions([comparison], measured)] == ["pytorch"]
