"""A script that shows one fault with a framework and numpy alone; it ends with 1 when the fault is there."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opscanner.precision.layout import layout_of
from opscanner.precision.rounding import to_bits
from opscanner.precision.ulp import ulp_of

#: Definitions of words that calls use (see ``frameworks/*/runner.py``), by the word; only those that a call needs.
_TORCH_WORDS = {
    "grad": """
def grad(function, arguments, upstream):
    leaves = [a.detach().requires_grad_() for a in (arguments if isinstance(arguments, (tuple, list)) else [arguments])]
    return torch.autograd.grad(function(*leaves), leaves, upstream)
""",
    "updated": """
def updated(function, *tensors):
    copies = [tensor.clone() for tensor in tensors]
    function(*copies)
    return copies
""",
    "stepped": """
def stepped(make, value, gradient, state):
    parameter = value.clone().requires_grad_()
    parameter.grad = gradient.clone()
    optimizer = make([parameter])
    state = {name: one.clone() if isinstance(one, torch.Tensor) else one for name, one in state.items()}
    optimizer.state[parameter].update(state)
    optimizer.step()
    return parameter.detach()
""",
}
_TENSORFLOW_WORDS = {
    "nhwc": """
def nhwc(tensor):
    return tf.transpose(tensor, [0, *range(2, len(tensor.shape)), 1])
""",
    "nchw": """
def nchw(tensor):
    rank = len(tensor.shape)
    return tf.transpose(tensor, [0, rank - 1, *range(1, rank - 1)])
""",
    "hwio": """
def hwio(tensor):
    return tf.transpose(tensor, [*range(2, len(tensor.shape)), 1, 0])
""",
    "oihw": """
def oihw(tensor):
    rank = len(tensor.shape)
    return tf.transpose(tensor, [rank - 1, rank - 2, *range(rank - 2)])
""",
    "grad": """
def grad(function, arguments, upstream):
    leaves = list(arguments) if isinstance(arguments, (tuple, list)) else [arguments]
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        result = function(*leaves)
    return [tf.convert_to_tensor(g) for g in tape.gradient(result, leaves, output_gradients=upstream)]
""",
    "updated": """
def updated(function, *tensors):
    variables = [tf.Variable(tensor) for tensor in tensors]
    function(*(variable.handle for variable in variables))
    return [variable.read_value() for variable in variables]
""",
}
_LAID_OUT = {
    "strided": "{name} = {name}.new_zeros((*{name}.shape[:-1], 2 * {name}.shape[-1]))[..., ::2].copy_({name})",
    "transposed": "{name} = {name}.transpose(-1, -2).contiguous().transpose(-1, -2)",
    "offset": "{name} = {name}.new_zeros({name}.numel() + 1)[1:].view({name}.shape).copy_({name})",
    "channels_last": "{name} = {name}.contiguous(memory_format=torch.channels_last)",
    "zero_dim": "{name} = {name}.reshape(())",
}
_WORD = {8: "uint8", 16: "int16", 32: "int32", 64: "int64"}


@dataclass(frozen=True)
class Shown:
    """What a script is to show.

    Parameters
    ----------
    output, index : int
        Which output of the call, and the flat position of the wrong element in it.
    exact, expected, got : float
        The reference, the same rounded to ``output_format``, and what came.
    budget_ulp : float
        A result this near to ``exact`` is none to complain of.
    """

    framework: str
    expression: str
    inputs: Mapping[str, np.ndarray]
    format_: str
    device: str
    layout: str
    output: int
    index: int
    output_format: str
    exact: float
    expected: float
    got: float
    budget_ulp: float


@dataclass(frozen=True)
class ScriptRun:
    """What a script printed, and its exit code (None: it took too long)."""

    output: str
    code: int | None


def write_script(shown: Shown) -> str:
    """The script's text."""
    torch = shown.framework == "pytorch"
    expression = re.sub(r"\braw\.", "tf.raw_ops.", shown.expression)
    expression = re.sub(r"\baten\.", "torch.ops.aten.", expression)
    words = _TORCH_WORDS if torch else _TENSORFLOW_WORDS
    used = [text for word, text in words.items() if re.search(rf"\b{word}\(", expression)]
    head = ["import sys", ""] if torch else ["import os", "import sys", ""]
    if torch:
        head += ["import numpy as np"] if re.search(r"\bnp\.", expression) else []
        head += ["import torch"] + (["import torch.nn.functional as F"] if re.search(r"\bF\.", expression) else [])
    else:
        head += ['os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # the kernels of tensorflow/core/kernels', ""]
        head += ["import numpy as np", "import tensorflow as tf"]
    kind = shown.format_
    lines = ["\n".join(head), ""]
    lines += [text.rstrip("\n") for text in used]
    if used:
        lines.append("")
    if torch:
        lines.append(f"dtype = torch.{kind}")
    else:
        room = "tf.dtypes.experimental" if kind.startswith("float8") else "tf"
        lines.append(f"dtype = {room}.{kind}")
    for name, array in shown.inputs.items():
        lines += input_lines(name, np.asarray(array), shown)
    lines.append(f"result = {expression}")
    lines += ["if isinstance(result, (tuple, list)):", f"    result = result[{shown.output}]"]
    return "\n".join([*lines, *_ending(shown)]) + "\n"


def _ending(shown: Shown) -> list[str]:
    """Prints expected and got with their bits, and says whether the fault is there."""
    width = layout_of(shown.output_format).width
    word, digits = _WORD[width], width // 4
    mask = (1 << width) - 1
    if shown.framework == "pytorch":
        element = f"got = result.detach().cpu().flatten()[{shown.index} : {shown.index + 1}]"
        value, bits = "got.double().item()", f"got.view(torch.{word}).item() & 0x{mask:X}"
        version = f'"torch", torch.__version__, "{shown.device}"'
    else:
        element = f"got = result.numpy().ravel()[{shown.index} : {shown.index + 1}]"
        value, bits = "got.astype(np.float64).item()", f"got.view(np.u{word.removeprefix('u')}).item()"
        version = f'"tensorflow", tf.__version__, "{shown.device}"'
    expected_bits = int(to_bits(np.asarray(shown.expected), shown.output_format))
    ulp = float(ulp_of(np.asarray(shown.exact), shown.output_format))
    return [
        element,
        f"value, bits = {value}, {bits}",
        "",
        f"exact = {_literal(shown.exact)}  # the right result, before rounding",
        f"expected, expected_bits = {_literal(shown.expected)}, 0x{expected_bits:0{digits}X}",
        f"error_ulp = abs(value - exact) / {_literal(ulp)}  # in units in the last place of {shown.output_format}",
        f"print({version})",
        f'print(f"expected {{expected!r}} (0x{{expected_bits:0{digits}X}})")',
        f'print(f"got      {{value!r}} (0x{{bits:0{digits}X}}), {{error_ulp:.4g}} ULP from the exact result")',
        f"right = value == expected or (value != value and expected != expected) or error_ulp <= {shown.budget_ulp:g}",
        'print("right" if right else "wrong")',
        "sys.exit(0 if right else 1)",
    ]


def run_script(text: str, timeout_s: float = 120.0) -> ScriptRun:
    """Runs a script as its reader would: another process, an empty folder, none of our settings."""
    ours = ("PYTHONPATH", "TF_ENABLE_ONEDNN_OPTS", "OPSCANNER_DB")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "2"
    with tempfile.TemporaryDirectory(prefix="opscanner-fault-") as folder:
        path = Path(folder, "fault.py")
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, str(path)], capture_output=True, text=True, cwd=folder, env=environment,
                timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return ScriptRun(f"took longer than {timeout_s:g} s", None)
    said = done.stdout if done.returncode in (0, 1) and done.stdout else done.stdout + done.stderr[-2000:]
    return ScriptRun(said, done.returncode)


def input_lines(name: str, array: np.ndarray, shown: Shown) -> list[str]:
    """Lines that make one input."""
    floating, torch = array.dtype.kind == "f", shown.framework == "pytorch"
    if array.dtype.kind == "c":
        kind = "torch.complex64" if torch else "tf.complex64"
    elif floating:
        kind = "dtype"
    else:
        kind = f"{'torch' if torch else 'tf'}.{array.dtype.name}"
    device = "" if shown.device == "cpu" or not torch else f', device="{shown.device}"'
    shape = tuple(array.shape)
    flat = array.ravel().tolist()
    if array.size > 8 and len(set(map(repr, flat))) == 1:
        value = _literal(flat[0])
        made = (
            f"torch.full({shape}, {value}, dtype={kind}{device})"
            if torch
            else f"tf.fill({shape}, tf.constant({value}, {kind}))"
        )
    else:
        made = _listed(flat, shape, kind, device, torch)
    lines = [f"{name} = {made}"]
    if torch and shown.layout in _LAID_OUT and (shown.layout != "zero_dim" or array.size == 1) and array.ndim:
        lines.append(_LAID_OUT[shown.layout].format(name=name))
    return lines


def _listed(flat: list[object], shape: tuple[int, ...], kind: str, device: str, torch: bool) -> str:
    """A list of values; runs of equal ones are written as products."""
    nested = _nested(flat, shape)
    if len(flat) > 8:
        runs = [(one, len(list(same))) for one, same in itertools.groupby(map(_literal, flat))]
        written = " + ".join(f"{count} * [{one}]" if count > 1 else f"[{one}]" for one, count in runs)
        if len(written) < len(nested):
            if torch:
                made = f"torch.tensor({written}, dtype={kind}{device})"
                return made if len(shape) == 1 else f"{made}.reshape({shape})"
            made = f"tf.constant({written}, {kind}"
            return f"{made})" if len(shape) == 1 else f"{made}, shape={shape})"
    if 0 in shape:
        return f"torch.empty({shape}, dtype={kind}{device})" if torch else f"tf.zeros({shape}, {kind})"
    return f"torch.tensor({nested}, dtype={kind}{device})" if torch else f"tf.constant({nested}, {kind})"


def _nested(flat: list[object], shape: tuple[int, ...]) -> str:
    if not shape:
        return _literal(flat[0]) if flat else "0.0"
    if len(shape) == 1:
        return "[" + ", ".join(map(_literal, flat)) + "]"
    step = len(flat) // max(shape[0], 1)
    return "[" + ", ".join(_nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])) + "]"


def _literal(value: object) -> str:
    """Python text of a value, exact; infinities and NaN too."""
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({_literal(value.real)}, {_literal(value.imag)})"
    return repr(value)


def bits_of(value: float, format_: str) -> str:
    """The bits of a value of a format, in hexadecimal.

    >>> bits_of(256.0, "bfloat16"), bits_of(-0.0, "float16")
    ('0x4380', '0x8000')
    """
    digits = layout_of(format_).width // 4
    return f"0x{int(to_bits(np.asarray(value), format_)):0{digits}X}"
