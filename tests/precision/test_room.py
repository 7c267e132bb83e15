"""What holds for the room as a whole: its examples are true, and formats need no numpy."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["formats", "rounding", "ulp", "metrics", "exact_sum"])
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"opscanner.precision.{module}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_formats_are_known_without_numpy() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from opscanner.precision import FORMATS, cast_direction\n"
        "print(FORMATS['float16'].precision, cast_direction('float16', 'float32').value)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "11 widen\n"
