"""A call that a watch saved, made again: what the watch saw, how far the result is from others and from the truth.

Everything is made of the file: the same file gives the same figures on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opscanner.dynamic.running.calls import floats_of, format_of, replaced, tensors_of
from opscanner.dynamic.running.compare import compare
from opscanner.dynamic.running.conclusion import conclude
from opscanner.dynamic.running.judge import Judgement, judge
from opscanner.dynamic.running.kinds import has_workspace
from opscanner.dynamic.running.named_call import Arrays, NamedCall, has_floats, operator_of
from opscanner.dynamic.running.noise import NoiseSource
from opscanner.dynamic.running.replayed import Beside, Replayed, Smallest
from opscanner.dynamic.running.saving import SavedCall, digest, read_call, write_call
from opscanner.dynamic.running.second import WIDER, Upcast, as_they_are, moved_arguments
from opscanner.dynamic.running.session import watch
from opscanner.dynamic.running.smallest_call import smallest_inputs
from opscanner.dynamic.running.true_error import true_errors
from opscanner.dynamic.running.truth import NoTruthError
from opscanner.errors import OpscannerError, UsageError
from opscanner.frameworks.runners import runner_of
from opscanner.watched import Alert, Mode

#: Seeds of perturbed inputs, unless told otherwise; and of those that may bring an alert again.
SEEDS = 8
_SEEDS_OF_ALERT = 4
#: Trials of making inputs small, unless told otherwise.
TRIALS = 250

_DOUBLE = {torch.complex64: torch.complex128}


def replay(
    path: str | Path, *, device: str = "cpu", seeds: int = SEEDS, trials: int = TRIALS, minimize: bool = True
) -> Replayed:
    """Calls a saved operator again; see :class:`Replayed`.

    Parameters
    ----------
    device : str
        Where the operator runs; the inputs are copied there.
    seeds : int
        Perturbations of the inputs: the more, the better a lower bound of the largest relative error.
    trials : int
        Calls that making the inputs small may take.

    Raises
    ------
    OpscannerError
        When the file is missing, damaged or of an operator that this torch has not; when memory does not suffice; when
        the operator refuses the inputs.
    UsageError
        For a device that there is not.
    """
    devices = runner_of("pytorch").devices()
    if (f"{device}:0" if device == "cuda" else device) not in devices:
        raise UsageError(f"there is no device {device}", f"one of {', '.join(devices)}")
    saved = read_call(path, device)
    operator = operator_of(saved.operator, str(path))
    call = NamedCall(operator, saved)
    if not has_floats(call):
        raise OpscannerError(f"{path} holds a call without a tensor of floating point", "give a watch's own file")
    found = Replayed(
        path=str(path),
        operator=saved.operator,
        device=device,
        inputs=[f"{name} {format_of(one)} {list(one.shape)}" for name, one in call.tensors.items()],
        seen=saved.seen,
    )
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=_cuda_devices(device)):
            _Replaying(found, call, saved).run(seeds, trials if minimize else 0)
    except OpscannerError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or runner_of("pytorch").out_of_memory(error):
            raise OpscannerError(
                f"{path}: {saved.operator} on {', '.join(found.inputs)} needs more memory than {device} has",
                "a device with more memory (--device)",
            ) from error
        raise OpscannerError(
            f"{path}: {saved.operator} refuses the saved inputs: {_first_line(error)}",
            f"the file was written by torch {saved.seen.get('torch', '')}, on {saved.seen.get('device', 'cpu')}",
        ) from error
    return found


def write_smallest(found: Replayed, path: str | Path) -> None:
    """Writes the smallest inputs as a file that can be replayed.

    Raises
    ------
    OpscannerError
        When none were found.
    """
    if found.smallest is None:
        raise OpscannerError(f"{found.path} has no smaller inputs: {found.why_not_smaller}")
    call = found.smallest.call
    seen = {name: value for name, value in found.seen.items() if name != "result"}
    write_call(Path(path), found.operator, call.args, call.kwargs, {**seen, "message": found.smallest.message})


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _cuda_devices(device: str) -> list[int]:
    return [torch.device(device).index or 0] if device.startswith("cuda") else []


class _Replaying:
    """One replay."""

    def __init__(self, found: Replayed, call: NamedCall, saved: SavedCall) -> None:
        self._found = found
        self._call = call
        self._random = saved.random
        self._mode = Mode(saved.seen.get("mode", Mode.PERTURB.value))

    def run(self, seeds: int, trials: int) -> None:
        found, call = self._found, self._call
        before = torch.get_rng_state()
        self._put_random_state()
        begun = torch.get_rng_state()
        everything = self._result(call.operator, call.args, call.kwargs)
        found.draws_random = not torch.equal(begun, torch.get_rng_state())
        torch.set_rng_state(before)
        self._say_of_bits(everything)
        results = floats_of((everything,))
        if not results:
            raise OpscannerError(f"{found.path}: {found.operator} gives no tensor of floating point")
        alert = self._alert(call.args, call.kwargs)
        found.alert = f"{alert.kind.value}: {alert.message}" if alert is not None else ""
        self._hold_beside(results, seeds)
        found.judgement = self._judge(results[0])
        doubles = self._other(lambda: _in_float64(call.operator, call.args, call.kwargs))
        self._ask_oracle(results)
        if trials and any(one.is_complex() for one in results):
            found.why_not_smaller = "complex results are not made small"
        elif trials and alert is not None:
            self._make_small(alert, results, trials)
        elif trials:
            found.why_not_smaller = self._why_no_alert()
        found.conclusion = conclude(found, results, doubles if isinstance(doubles, list) else None)

    def _put_random_state(self) -> None:
        kind = torch.device(self._found.device).type
        if "cpu" in self._random:
            torch.set_rng_state(self._random["cpu"])
        if kind in self._random and kind != "cpu":
            torch.cuda.set_rng_state(self._random[kind], self._found.device)

    def _result(self, operator: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """What an operator gives, with the random state of the file; the arguments stay as they are."""
        self._put_random_state()
        others, words = as_they_are(operator, args, kwargs)
        return operator(*others, **words)

    def _say_of_bits(self, everything: Any) -> None:
        found = self._found
        if "result" in found.seen:
            found.same_bits = [digest(one) for one in tensors_of((everything,))] == found.seen["result"]
        if found.same_bits is False:
            there = f"torch {found.seen.get('torch', '')} on {found.seen.get('device', 'cpu')}"
            found.notes.append(
                f"the result has other bits than the watch saw with {there} (here torch {torch.__version__} on "
                f"{found.device}): other kernels, another number of threads, or an operator that is not deterministic"
            )
        if found.draws_random and not self._random:
            found.notes.append("the operator draws random numbers, and the file has no random state: they are others")

    def _alert(self, args: Sequence[Any], kwargs: Any) -> Alert | None:
        """What the watch's own check says, under its settings."""
        seen = self._found.seen
        if self._mode is Mode.SUBSTITUTE:
            return None
        unmoved = seen.get("unmoved", [])
        kept = [one for place, one in enumerate(tensors_of(args, kwargs)) if place in unmoved]
        parameters = torch.nn.ParameterList(torch.nn.Parameter(one, requires_grad=False) for one in kept)
        seeds = _SEEDS_OF_ALERT if self._mode in (Mode.PERTURB, Mode.PERMUTE) else 1
        for seed in range(seen.get("seed", 0), seen.get("seed", 0) + seeds):
            with watch(
                parameters, mode=self._mode, level="operator", tolerance_ulp=seen.get("tolerance_ulp"),
                tolerance=seen.get("tolerance"), noise=seen.get("noise", "ulp"),
                amount=seen.get("amount", 1.0), seed=seed,
            ) as report:  # fmt: skip
                self._result(self._call.operator, args, kwargs)
            same = [one for one in report.alerts if one.kind.value == seen.get("kind", one.kind.value)]
            if same or report.alerts:
                return (same or report.alerts)[0]
        return None

    def _why_no_alert(self) -> str:
        if self._mode is Mode.SUBSTITUTE:
            return "the other implementation is not in the file"
        return "the alert does not come again"

    def _hold_beside(self, results: Sequence[torch.Tensor], seeds: int) -> None:
        call, found = self._call, self._found
        moved: list[list[torch.Tensor] | str] = []
        for seed in range(seeds):
            noise = NoiseSource(seed)
            moved.append(
                self._other(
                    lambda: self._result(call.operator, *moved_arguments(noise, call.operator, call.args, call.kwargs))  # noqa: B023
                )
            )
        wider = sorted({str(WIDER.get(one.dtype, "")).removeprefix("torch.") for one in call.tensors.values()} - {""})
        named = [
            (f"all inputs moved by 1 ULP ({seeds} seeds)", moved),
            (f"one format wider ({', '.join(wider)})", [self._other(self._wider)] if wider else []),
            ("float64", [self._other(lambda: _in_float64(call.operator, call.args, call.kwargs))]),
        ]
        if wider == ["float64"]:
            named.pop()
        for output, one in enumerate(results):
            for against, others in named:
                found.beside += _worst_beside(against, output, one, others)

    def _wider(self) -> Any:
        if has_workspace(self._call.operator):
            raise TypeError("its workspace is bytes in the layout of one format")
        self._put_random_state()
        run = Upcast().arrange(self._call.operator, self._call.args, self._call.kwargs)
        return None if run is None else run()

    def _other(self, run: Callable[[], Any]) -> list[torch.Tensor] | str:
        """The floating-point tensors of another run, or why there are none."""
        try:
            self._put_random_state()
            return floats_of((run(),))
        except Exception as error:  # noqa: BLE001 - a run in another format is a trial: what it raises is in its row
            if isinstance(error, MemoryError) or runner_of("pytorch").out_of_memory(error):
                return "needs more memory"
            return _first_line(error)

    def _judge(self, result: torch.Tensor) -> Judgement | None:
        call = self._call
        if result.dtype not in WIDER:
            return None
        reference = self._other(lambda: _in_float64(call.operator, call.args, call.kwargs))
        if isinstance(reference, str) or not reference or reference[0].shape != result.shape or not result.numel():
            return None
        noise = NoiseSource(0)

        def again() -> torch.Tensor:
            self._put_random_state()
            args, kwargs = moved_arguments(noise, call.operator, call.args, call.kwargs)
            return floats_of((_in_float64(call.operator, args, kwargs),))[0]

        return judge(result, reference[0], again)

    def _ask_oracle(self, results: Sequence[torch.Tensor]) -> None:
        found = self._found
        if found.draws_random:
            found.why_no_truth = "it drew random numbers"
            return
        try:
            found.truths = true_errors(self._call, results)
        except NoTruthError as error:
            found.why_no_truth = str(error)

    def _make_small(self, alert: Alert, results: Sequence[torch.Tensor], trials: int) -> None:
        found, call = self._found, self._call
        output, index = _place_of(alert, results)
        kind = _class_of(results[output], index)

        def brings_alert(arrays: Any) -> Alert | None:
            tried = call.with_arrays(arrays)
            again = self._alert(tried.args, tried.kwargs)
            if again is None or again.kind is not alert.kind:
                return None
            outputs = floats_of((self._result(call.operator, tried.args, tried.kwargs),))
            at, where = _place_of(again, outputs)
            return again if _class_of(outputs[at], where) == kind else None

        if brings_alert(call.arrays()) is None:
            found.why_not_smaller = "the alert does not come with the inputs in rows one behind the other"
            return
        arrays = smallest_inputs(
            call, tuple(results[output].shape), index, lambda tried: brings_alert(tried) is not None, trials
        )
        found.smallest = self._smallest(arrays, brings_alert(arrays))

    def _smallest(self, arrays: Arrays, alert: Alert | None) -> Smallest | None:
        if alert is None:
            return None
        small = NamedCall(self._call.operator, self._call.with_arrays(arrays))
        outputs = floats_of((self._result(small.operator, small.args, small.kwargs),))
        output, index = _place_of(alert, outputs)
        truth = None
        if not self._found.draws_random:
            try:
                truth = next((one for one in true_errors(small, outputs) if one.output == output), None)
            except NoTruthError:
                truth = None
        doubles = self._other(lambda: _in_float64(small.operator, small.args, small.kwargs))
        if truth is not None:
            expected = float(truth.values[index])
        else:
            expected = float(doubles[output][index]) if isinstance(doubles, list) else float("nan")
        got = float(outputs[output].double()[index])
        text = f"{alert.kind.value}: {alert.message}"
        return Smallest(small, text, output, format_of(outputs[output]), index, got, expected, truth)


def _in_float64(operator: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """The same operator on the same values in float64 throughout."""
    if has_workspace(operator):
        raise TypeError("its workspace is bytes in the layout of one format")
    args, kwargs = as_they_are(operator, args, kwargs)
    floats = {id(one) for one in floats_of(args, kwargs)}
    made: dict[int, torch.Tensor] = {}

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in floats:
            return tensor
        to = torch.complex128 if tensor.is_complex() else torch.float64
        return made.setdefault(id(tensor), tensor.to(to))

    formats = {**dict.fromkeys(WIDER, torch.float64), **_DOUBLE}
    others = [formats.get(one, one) if isinstance(one, torch.dtype) else one for one in replaced(list(args), wide)]
    words = {
        name: formats.get(one, one) if isinstance(one, torch.dtype) else one
        for name, one in replaced(dict(kwargs), wide).items()
    }
    return operator(*others, **words)


def _worst_beside(
    against: str, output: int, one: torch.Tensor, others: Sequence[list[torch.Tensor] | str]
) -> list[Beside]:
    """The worst of several comparisons, as one row; no row where nothing was tried."""
    compared = []
    for other in others:
        if isinstance(other, str):
            return [Beside(against, output, None, other)]
        if output >= len(other) or other[output].shape != one.shape:
            return [Beside(against, output, None, "gives other outputs")]
        compared.append(compare(one, other[output]))
    if not compared:
        return []
    worst = max(
        compared,
        key=lambda found: (
            found.nan_mismatches + found.infinity_mismatches,
            found.max_relative_error,
            found.max_scaled_ulp,
        ),
    )
    return [Beside(against, output, worst)]


def _place_of(alert: Alert, results: Sequence[torch.Tensor]) -> tuple[int, tuple[int, ...]]:
    """The output and the index of the element that an alert is about."""
    for output, one in enumerate(results):
        if not bool(torch.isfinite(one).all()):
            return output, tuple(int(at) for at in (~torch.isfinite(one)).nonzero()[0])
    index = alert.site.worst_index
    for output, one in enumerate(results):
        if len(index) == one.dim() and all(at < n for at, n in zip(index, one.shape, strict=True)):
            return output, index
    return 0, (0,) * results[0].dim()


def _class_of(result: torch.Tensor, index: tuple[int, ...]) -> str:
    """What kind of number an element is: a smaller call must show the same."""
    value = torch.view_as_real(result[index])[0] if result.is_complex() else result[index]
    number = float(value.double())
    if np.isnan(number):
        return "nan"
    if np.isinf(number):
        return "infinity"
    return "zero" if number == 0 else "number"
