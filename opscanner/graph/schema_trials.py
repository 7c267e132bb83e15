"""The tables of what was measured: campaigns, a row for each measurement, and the faults that came of them.

They stand beside the graph and refer to nothing in it: a database may hold either alone. A database that was made
before they were, or before some of their columns were, gets them when something is measured
(:mod:`opscanner.graph.trial_store`), so that its scans need not be run again.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Double, Index, String, Table, Text

from opscanner.graph.schema import _id, _int, _ref, _text, _word, metadata


def _number(name: str, comment: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Double, nullable=nullable, comment=comment)


def _label(name: str, comment: str) -> Column[Any]:
    return Column(name, String(255), nullable=False, comment=comment)


campaign = Table(
    "campaign",
    metadata,
    _id("Campaign."),
    _text("versions", "Releases and what else results depend on (vector instructions ...), as JSON."),
    _text("machine", "Processor and system that it ran on."),
    _word("device", "cpu, cuda or cuda:N."),
    _int("seed", "Seed of all inputs."),
    _text("options", "Operators, formats, strategies, limits ... as JSON; resumed only with the same ones."),
    _text("started", "When it began, ISO 8601, UTC."),
    Column("ended", Text, comment="When it ended; NULL while it runs and after it was interrupted."),
    comment="One row a run of opscanner test.",
)

campaign_task = Table(
    "campaign_task",
    metadata,
    _id("Task."),
    _ref("campaign_id", "campaign", "Campaign it belongs to."),
    _text("key", "Operator, format, device, frameworks, strategies, seed: what a resumed campaign leaves out."),
    _int("rows", "Measurements that it gave; 0 when its parts were run one by one."),
    Index("ix_campaign_task_campaign", "campaign_id"),
    comment="One row a task that is done, with or without measurements.",
)

measurement = Table(
    "measurement",
    metadata,
    _id("Measurement."),
    _ref("campaign_id", "campaign", "Campaign that took it."),
    _label("operator", "Id of the operator in the catalog."),
    _word("direction", "forward or backward."),
    _word("framework", "pytorch or tensorflow."),
    Column("version", String(64), nullable=False, comment="Release that ran."),
    _word("format", "Format under test."),
    _word("device", "cpu, cuda or cuda:N."),
    _word("layout", "How inputs lay in memory: contiguous, strided ..."),
    _label("strategy", "How inputs were made."),
    _int("seed", "Seed of the inputs."),
    _word("status", "ran, not supported, raised, aborted, timed out or out of memory."),
    _word("verdict", "What is said of it: correctly rounded, within budget, beyond upcast, class mismatch ..."),
    _text("message", "The framework's words where it did not run, with the last of a crashed process's output."),
    _int("output", "Position of the output that is told of: the worst one of a call with several."),
    _int("elements", "Elements compared."),
    _number("max_ulp", "Largest error in ULP at the reference; class mismatches are left out.", nullable=True),
    _number("mean_ulp", "Mean error in ULP.", nullable=True),
    _number("p50_ulp", "Half of the elements err at most this much, in ULP.", nullable=True),
    _number("p90_ulp", "Nine in ten err at most this much.", nullable=True),
    _number("p99_ulp", "99 in 100 err at most this much.", nullable=True),
    _number("p999_ulp", "999 in 1000 err at most this much.", nullable=True),
    _int("over_1_ulp", "Elements that err by more than 1 ULP."),
    _number("max_absolute_error", "Largest absolute error.", nullable=True),
    _number("max_relative_error", "Largest relative error.", nullable=True),
    _number("max_scaled_ulp", "Largest error in ULP of the largest reference value of its row.", nullable=True),
    _int("nan_mismatches", "Elements that are NaN on one side only."),
    _int("infinity_mismatches", "Elements that are infinite on one side only, or of opposite signs."),
    _int("sign_mismatches", "Elements of another sign, zeros among them."),
    _int("flushed_subnormals", "Elements that are zero where a subnormal is right."),
    _int("undecided", "Elements that the reference could not decide; they are left out."),
    _number("budget_ulp", "What the operator's class may err by."),
    _number(
        "upcast_max_ulp",
        "Largest error of the same call in the next wider format, rounded once; NULL where that does not run.",
        nullable=True,
    ),
    _int("beyond_upcast", "Elements over the budget where the upcast result is within it."),
    _number(
        "other_max_ulp",
        "Largest distance to the other framework's result, in representable values; NULL where there is none.",
        nullable=True,
    ),
    _word("tier", "What the reference is: float64, arb ...; own float64 is the operator's own run."),
    _text("expression", "The call."),
    _text("batch", "What the inputs of the worst element were made for."),
    _int("worst_index", "Flat position of the worst element; -1 when there is none."),
    Column(
        "worst_expected",
        String(64),
        nullable=False,
        comment="Reference there, rounded to the format, as decimal text that reads back exactly: nan, inf, -0.0 too.",
    ),
    Column("worst_got", String(64), nullable=False, comment="Result there, written the same way."),
    _text("worst_inputs", "Inputs there as JSON: name to value, floats as hexadecimal text, which holds all bits."),
    _number("elapsed_s", "Seconds that the calls took."),
    _int("batch_number", "Position of the worst element's batch in its strategy; of a search, the call that found it."),
    _text(
        "coverage", "Shares of the format's (sign, exponent) cells that were fed, as JSON: name of an input to share."
    ),
    _text("coverage_in_all", "The same for all batches of the operator, format and framework together."),
    Index("ix_measurement_campaign", "campaign_id"),
    Index("ix_measurement_operator", "operator", "framework", "format"),
    Index("ix_measurement_verdict", "verdict"),
    comment="One row an operator, framework, format, layout and input strategy: how far results lie from right ones.",
)

fault = Table(
    "fault",
    metadata,
    _id("Fault."),
    _ref("campaign_id", "campaign", "Campaign that found it."),
    _label("cause", "Faults of one cause have the same text here: one story for all operators that a kernel serves."),
    _word("framework", "pytorch or tensorflow."),
    Column("version", String(64), nullable=False, comment="Release that ran."),
    _label("operator", "Id of the operator in the catalog."),
    _word("direction", "forward or backward."),
    _word("format", "Format under test."),
    _word("device", "cpu, cuda or cuda:N."),
    _word("layout", "How inputs lie in memory."),
    _word("verdict", "Verdict on the smallest input."),
    _text("expression", "The call."),
    _text("inputs", "The smallest inputs that show it, as JSON: name to {shape, values}; floats as hexadecimal text."),
    _text("expected", "What is right, as JSON: a list of values, floats as hexadecimal text."),
    _text("got", "What came, written the same way."),
    _number("error_ulp", "Its error in ULP of the format; NULL for a class mismatch.", nullable=True),
    _text("explanation", "Findings of a scan that explain it, as JSON: objects with file, line, pattern, message."),
    _text("script", "A stand-alone script that shows it."),
    Index("ix_fault_cause", "cause"),
    Index("ix_fault_campaign", "campaign_id"),
    comment="One row a fault: the smallest input of an operator for which its result is wrong.",
)

fault_measurement = Table(
    "fault_measurement",
    metadata,
    _ref("fault_id", "fault", "Fault.", key=True),
    _ref("measurement_id", "measurement", "Measurement that shows it.", key=True),
    Index("ix_fault_measurement_measurement", "measurement_id"),
    comment="Which measurements show a fault.",
    sqlite_with_rowid=False,
)

#: Columns that came after the table, and what they hold in rows of before: a database gets them, as it gets the tables.
LATER = {"batch_number": "0", "coverage": "'{}'", "coverage_in_all": "'{}'"}

#: In an order in which they can be created.
TRIALS = (campaign, campaign_task, measurement, fault, fault_measurement)
__all__ = ["LATER", "TRIALS", "campaign", "campaign_task", "fault", "fault_measurement", "measurement"]
