"""One call of one operator in this process: whatever it raises becomes an outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opscanner.errors import UsageError
from opscanner.frameworks.refusals import text_of
from opscanner.frameworks.runners import Runner, runner_of
from opscanner.measurements import Status

_LONGEST_MESSAGE = 2000


@dataclass(frozen=True)
class Outcome:
    """What a call gave.

    Parameters
    ----------
    status : Status
        ``RAN``, ``UNSUPPORTED``, ``RAISED`` or ``OUT_OF_MEMORY``; a process cannot tell more of itself.
    outputs : tuple of numpy.ndarray
        Empty unless it ran. Results in 8 and 16 bit are float32 arrays, which hold them exactly.
    formats : tuple of str
        For each output the format it came in: ``float16``, ``int64`` ...
    message : str
        The framework's words where it did not run.
    elapsed_s : float
        Seconds by the clock, conversions and transfers included.
    """

    status: Status
    outputs: tuple[np.ndarray, ...] = ()
    formats: tuple[str, ...] = ()
    message: str = ""
    elapsed_s: float = 0.0


def run_call(
    framework: str,
    expression: str,
    inputs: Mapping[str, np.ndarray],
    format_: str,
    device: str = "cpu",
    layout: str = "contiguous",
    *,
    compiled: bool = False,
) -> Outcome:
    """Runs a call once; ``compiled`` through the framework's compiler, contiguous alone.

    Raises
    ------
    UsageError
        When the framework or the device is not there: that is no trial's result.
    """
    runner = runner_of(framework)
    started = time.monotonic()
    try:
        if compiled:
            named = runner.evaluate_compiled(expression, inputs, format_, device=device)
        else:
            named = runner.evaluate_named(expression, inputs, format_, device=device, layout=layout)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001  (one bad trial is a row, not the end of the run)
        status, message = _read(runner, error)
        return Outcome(status, message=message, elapsed_s=time.monotonic() - started)
    return Outcome(
        Status.RAN,
        outputs=tuple(array for _, array in named),
        formats=tuple(name for name, _ in named),
        elapsed_s=time.monotonic() - started,
    )


def _read(runner: Runner, error: Exception) -> tuple[Status, str]:
    missing = runner.unsupported(error)
    if missing is not None:
        return Status.UNSUPPORTED, missing
    return (Status.OUT_OF_MEMORY if runner.out_of_memory(error) else Status.RAISED), text_of(error)[:_LONGEST_MESSAGE]
