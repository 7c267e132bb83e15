"""A script that shows an alert with torch alone: expected and got, or what moved inputs make of a right operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from opscanner.dynamic.fault_script import Shown, input_lines, write_script
from opscanner.dynamic.running.calls import floats_of, format_of, is_float
from opscanner.dynamic.running.named_call import Arrays, NamedCall, as_array
from opscanner.dynamic.running.noise import NoiseSource
from opscanner.dynamic.running.replayed import Replayed
from opscanner.errors import OpscannerError
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format

_KINDS = (torch.dtype, torch.layout, torch.memory_format)


#: ULP of the float64 run that a script allows where there is no exact result, as a judgement does.
_FINE_ULP = 2.0


def script_of(found: Replayed) -> str:
    """A script that shows the smallest inputs with torch alone; it ends with 1 where the operator is wrong.

    Of an operator that is right, and multiplies what its inputs lost, it shows that.

    Raises
    ------
    OpscannerError
        When no smaller inputs were found, or the call draws random numbers.
    """
    small = found.smallest
    if small is None:
        raise OpscannerError(f"{found.path} gives no script: {found.why_not_smaller or 'inputs were not made small'}")
    if found.draws_random:
        raise OpscannerError(f"{found.path} gives no script: {found.operator} draws random numbers")
    arrays = small.call.arrays()
    if any(array.dtype.kind == "c" for array in arrays.values()):
        raise OpscannerError(f"{found.path} gives no script: its inputs are complex")
    truth = small.truth
    shape = floats_of((small.call.operator(*small.call.args, **small.call.kwargs),))[small.output].shape
    place = int(np.ravel_multi_index(small.index, shape)) if small.index else 0
    if truth is not None and truth.within_budget and np.isfinite(small.got):
        noise = NoiseSource(0)
        moved = {name: as_array(noise.perturbed(one)) for name, one in small.call.tensors.items()}
        return moved_script(small.call, arrays, moved, output=small.output, device=found.device)
    return fault_script(
        small.call, arrays, output=small.output, index=place, format_=small.format, exact=small.expected,
        expected=float(round_to_format(small.expected, small.format)), got=small.got,
        budget_ulp=truth.budget_ulp if truth is not None else _FINE_ULP, device=found.device,
    )  # fmt: skip


def expression_of(call: NamedCall) -> str:
    """The call as Python, over the names of its tensors; those in another format than the script's are cast.

    The script's format is the widest of the inputs', so that casts change no value.
    """
    common = common_format(call)
    given = [_text(value, call, common) for value in (call.argument_names(one) for one in call.args)]
    given += [f"{name}={_text(call.argument_names(one), call, common)}" for name, one in call.kwargs.items()]
    operator = str(call.operator)
    operator = operator if operator.startswith("aten.") else f"torch.ops.{operator}"
    return f"{operator}({', '.join(given)})"


def common_format(call: NamedCall) -> str:
    """A format that holds all values of floating point among the inputs."""
    formats = {format_of(one) for one in call.tensors.values() if is_float(one)}
    if len(formats) == 1:
        return formats.pop()
    wide = max(formats, key=lambda name: FORMATS[name].precision)
    return wide if FORMATS[wide].precision >= FORMATS["float32"].precision else "float32"


def _text(value: Any, call: NamedCall, common: str) -> str:
    if isinstance(value, str) and value in call.tensors and type(value) is not str:
        tensor = call.tensors[str(value)]
        cast = is_float(tensor) and format_of(tensor) != common
        return f"{value}.to({tensor.dtype})" if cast else str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(one, call, common) for one in value)}]"
    if isinstance(value, _KINDS):
        return str(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def fault_script(
    call: NamedCall, arrays: Arrays, *, output: int, index: int, format_: str, exact: float, expected: float,
    got: float, budget_ulp: float, device: str,
) -> str:  # fmt: skip
    """A script that ends with 1 when the operator's result is not within the budget of the exact one."""
    return write_script(_shown(call, arrays, device, output, index, format_, exact, expected, got, budget_ulp))


def moved_script(call: NamedCall, arrays: Arrays, moved: Mapping[str, np.ndarray], *, output: int, device: str) -> str:
    """A script that calls the operator on inputs, and on those moved by one ULP, and prints both results."""
    shown = _shown(call, arrays, device, output, 0, "float64", 0.0, 0.0, 0.0, 0.0)
    expression = re.sub(r"^aten\.", "torch.ops.aten.", shown.expression)
    lines = ["import torch", "", f"dtype = torch.{shown.format_}"]
    for name, array in arrays.items():
        lines += input_lines(name, array, shown)
    lines += [f"result = {expression}", "", "# The same, each number moved by one unit in the last place, up or down."]
    for name, array in moved.items():
        lines += input_lines(name, array, shown)
    lines += [f"result_of_moved = {expression}", "if isinstance(result, (tuple, list)):"]
    lines += [f"    result, result_of_moved = result[{output}], result_of_moved[{output}]"]
    lines += ['print("torch", torch.__version__)', 'print("result          ", result.flatten()[:8].tolist())']
    lines += ['print("of moved inputs ", result_of_moved.flatten()[:8].tolist())', ""]
    return "\n".join(lines)


def _shown(
    call: NamedCall, arrays: Arrays, device: str, output: int, index: int, format_: str, exact: float, expected: float,
    got: float, budget_ulp: float,
) -> Shown:  # fmt: skip
    return Shown(
        framework="pytorch",
        expression=expression_of(call),
        inputs=arrays,
        format_=common_format(call),
        device=device,
        layout="contiguous",
        output=output,
        index=index,
        output_format=format_,
        exact=exact,
        expected=expected,
        got=got,
        budget_ulp=budget_ulp,
    )
