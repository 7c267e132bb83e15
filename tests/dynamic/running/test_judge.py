"""Results are judged by what one ULP of their inputs does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from opscanner.dynamic.running.judge import judge  # noqa: E402


def test_elements_that_are_not_finite_are_in_no_figure():
    got = torch.tensor([float("inf"), float("inf"), 1.0])
    wider = torch.tensor([1e39, 1e39, 1.0 + 2.0**-22], dtype=torch.float64)
    found = judge(got, wider, lambda: wider)
    # The only finite element is off by 2 ULP of float32, 2**-23 at 1, and the inputs explain nothing.
    assert (found.worst, found.ulp, found.lost, found.index) == (2.0, 2.0, False, (2,))
    assert found.median_ulp == 0.0
