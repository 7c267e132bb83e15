"""Pages of faults, as a maintainer reads them."""

from __future__ import annotations

import io

import numpy as np

from opscanner.dynamic.fault_kinds import Cause, Kind
from opscanner.dynamic.fault_script import ScriptRun
from opscanner.dynamic.fault_stories import Fault, Story
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.explanations import Explanation
from opscanner.report.faults import FaultReport, as_json, render_markdown

MEASURED = Measurement(
    "cumsum", "forward", "tensorflow", "2.21.0", "bfloat16", "cpu", "contiguous", "ones", 0, Status.RAN,
    Verdict.BEYOND_UPCAST, count=512, max_ulp=128.0, over_1_ulp=250, expression="raw.Cumsum(x=x)", batch="512 ones",
)  # fmt: skip
FAULT = Fault(
    "cumsum", "forward", "tensorflow", "2.21.0", "bfloat16", "cpu", "contiguous", Verdict.BEYOND_UPCAST,
    "raw.Cumsum(x=x)", {"x": np.array([256.0, 1.0, 1.0, 1.0, 1.0])}, 0, 4, "bfloat16", 260.0, 260.0, 256.0, 260.0, 2.0,
    1.0, 0.0, Cause(Kind.ACCUMULATION, "bits agree"), ("Cumsum",), "print('script')\n", MEASURED,
)  # fmt: skip
FOUND = Explanation(
    "tensorflow", "2.14.1", "cuda", "Cumsum", "untuned-accumulation", "scan_ops_gpu.h", 104, "Sum::operator()",
    "+ is held in bfloat16", "medium",
)  # fmt: skip


def report(*found: Explanation) -> FaultReport:
    story = Story("Cumsum", Kind.ACCUMULATION, (FAULT,))
    return FaultReport(story, ScriptRun("got 256.0\n", 1), (MEASURED,), found)


def page(*found: Explanation) -> str:
    stream = io.StringIO()
    render_markdown(report(*found), stream)
    return stream.getvalue()


def test_a_page_says_what_is_wrong_with_values_and_bits():
    text = page()
    assert text.startswith("# TensorFlow Cumsum adds up in bfloat16 on CPU: 256 where 260 is right\n")
    assert "gives 256 for 5 input values where 260 is right, 2 ULP off" in text
    assert "260 (0x4382)" in text
    assert "256 (0x4380)" in text
    assert "print('script')" in text
    assert "got 256.0" in text


def test_findings_of_another_version_and_device_are_said_to_be_that():
    text = page(FOUND)
    assert "Found in the sources of TensorFlow 2.14.1 (measured: 2.21.0)" in text
    assert "`scan_ops_gpu.h:104`" in text
    assert "These are the cuda kernels" in text


def test_without_findings_the_page_says_so():
    assert "No scan of the sources at hand explains it." in page()


def test_json_holds_every_bit():
    fault = as_json(report())["faults"][0]
    assert fault["got"] == "0x1.0000000000000p+8"
    assert (fault["got_bits"], fault["expected_bits"]) == ("0x4380", "0x4382")
