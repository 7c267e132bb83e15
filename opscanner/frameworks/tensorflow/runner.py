"""Runs TensorFlow raw ops: the one place of the package that imports tensorflow.

Calls are expressions of the project's own tables (``data/operator_pairs.csv``), never of a user.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

# Read once, at import: with oneDNN, float32 runs other kernels than those of tensorflow/core/kernels, which scans see.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Threads change the order of sums, and can no longer be chosen once an op has run.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks  # what tf.debugging's dumps stand on; there is no public door

from opscanner.frameworks.layouts import check_layout
from opscanner.frameworks.refusals import explain, text_of
from opscanner.frameworks.runners import check_device
from opscanner.frameworks.tensorflow.refusals import OUT_OF_MEMORY, REFUSALS

#: A tensor of TensorFlow is row-major; an input without axes is a matter of its shape.
_LAYOUTS = ("contiguous", "zero_dim")

#: Ops that move, shape, name or hold values and compute none.
BOOKKEEPING = frozenset(
    {
        *(
            "AssignVariableOp",
            "BroadcastGradientArgs",
            "ConcatV2",
            "Const",
            "ExpandDims",
            "Fill",
            "GatherV2",
            "Identity",
        ),
        *("IdentityN", "InvertPermutation", "OnesLike", "Pack", "Prod", "Range", "Rank", "ReadVariableOp", "Reshape"),
        *("Shape", "ShapeN", "Size", "Slice", "Squeeze", "StopGradient", "StridedSlice", "Transpose", "VarHandleOp"),
        *("DestroyResourceOp", "VarIsInitializedOp", "ZerosLike", "_EagerConst", "ConcatOffset", "Split", "Unpack"),
        *("VariableShape", "BroadcastTo", "Tile", "NoOp", "EnsureShape", "PreventGradient"),
    }
)

#: Attributes without effect on a right call's values that came after TensorFlow 2.14: hints for automatic
#: differentiation, a sparse gradient, what to do with an index out of range.
_NO_ATTRIBUTES = frozenset({"name", "grad_a", "grad_b", "grad_x", "grad_y", "sparse_gradient", "bad_indices_policy"})


def evaluate(
    expression: str,
    inputs: Mapping[str, np.ndarray],
    format_name: str,
    *,
    device: str = "cpu",
    layout: str = "contiguous",
) -> list[np.ndarray]:
    """The values of an expression over ``inputs``, floats among them in the named format; one array an output.

    Results in 8 and 16 bit come as float32, which holds them exactly.

    Parameters
    ----------
    device : str
        ``cpu``, ``cuda`` or ``cuda:N``. An op without a kernel there raises: none runs elsewhere in silence.
    layout : str
        ``contiguous``, or ``zero_dim`` for inputs of one element; TensorFlow has no others.

    Raises
    ------
    UsageError
        When there is no such device.
    LayoutError
        When TensorFlow does not have the layout, or no input can take it.
    """
    named = evaluate_named(expression, inputs, format_name, device=device, layout=layout)
    return [array for _, array in named]


def evaluate_named(
    expression: str,
    inputs: Mapping[str, np.ndarray],
    format_name: str,
    *,
    device: str = "cpu",
    layout: str = "contiguous",
) -> list[tuple[str, np.ndarray]]:
    """As :func:`evaluate`, each output with the name of the format that it came in: ``float16``, ``int64`` ..."""
    check_device("TensorFlow", device, devices())
    check_layout((np.shape(value) for value in inputs.values()), layout, _LAYOUTS)
    names = _namespace(format_name)
    with tf.device(_place(device)):
        for name, value in inputs.items():
            alone = layout == "zero_dim" and value.size == 1
            names[name] = _tensor(value.reshape(()) if alone else value, format_name)
        result = eval(_compiled(expression), names)  # noqa: S307  (the project's own table)
        return [(tf.as_dtype(tensor.dtype).name, _array(tensor)) for tensor in map(tf.convert_to_tensor, _flat(result))]


def evaluate_compiled(
    expression: str, inputs: Mapping[str, np.ndarray], format_name: str, *, device: str = "cpu"
) -> list[tuple[str, np.ndarray]]:
    """As :func:`evaluate_named`, as one graph of ``tf.function``, which may be rewritten as a whole."""
    check_device("TensorFlow", device, devices())
    with tf.device(_place(device)):
        tensors = [_tensor(value, format_name) for value in inputs.values()]
        function = eval(f"lambda {', '.join(inputs)}: {expression}", _namespace(format_name))  # noqa: S307
        result = tf.function(function, autograph=False)(*tensors)
        return [(tf.as_dtype(tensor.dtype).name, _array(tensor)) for tensor in map(tf.convert_to_tensor, _flat(result))]


def unsupported(error: BaseException) -> str | None:
    """What is missing, when an error says that TensorFlow has no such op, format, device or layout; else None."""
    return explain(text_of(error), REFUSALS)


def out_of_memory(error: BaseException) -> bool:
    """True when an error says that memory did not suffice."""
    return re.search(OUT_OF_MEMORY, text_of(error)) is not None


@functools.cache
def devices() -> list[str]:
    """``cpu``, and ``cuda:0`` and so on."""
    return ["cpu", *(f"cuda:{number}" for number, _ in enumerate(tf.config.list_physical_devices("GPU")))]


def _place(device: str) -> str:
    if device == "cpu":
        return "/CPU:0"
    if tf.config.get_soft_device_placement():  # else what has no kernel there would run on the CPU
        tf.config.set_soft_device_placement(False)
    return f"/GPU:{device.partition(':')[2] or 0}"


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<call>", "eval")


def operators_run(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> tuple[str, ...]:
    """Names of the ops that run for an expression, in order of first call, those of gradients too.

    :data:`BOOKKEEPING` names those that compute nothing.
    """
    seen: dict[str, None] = {}

    def note(op_type: str | bytes, *_: Any, **__: Any) -> None:
        seen[op_type.decode() if isinstance(op_type, bytes) else op_type] = None

    names = _namespace(format_name)
    names.update({name: _tensor(value, format_name) for name, value in inputs.items()})
    op_callbacks.add_op_callback(note)
    try:
        eval(expression, names)  # noqa: S307  (the project's own table)
    finally:
        op_callbacks.clear_op_callbacks()
    return tuple(seen)


def backward_operators_run(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> tuple[str, ...]:
    """Names of the ops that the backward passes of an expression's ``grad(...)`` run and whose values enter the result.

    A tape computes gradients nobody asked for as well (of constants that were broadcast, of swish's beta): they are
    left out, and so are :data:`BOOKKEEPING`, what yields no floats, and sums over no axes. In order of first call;
    empty for an expression without ``grad``.
    """
    ran: list[tuple[str, list[Any], list[Any]]] = []  # tensors are kept: their ids are compared

    def note(op_type: str | bytes, taken: Any, _attributes: Any, given: Any, *_: Any, **__: Any) -> None:
        ran.append((op_type.decode() if isinstance(op_type, bytes) else op_type, list(taken), list(given)))

    begun: list[int] = []
    found: dict[str, None] = {}

    def gradient(function: Callable[..., tf.Tensor], arguments: Any, upstream: tf.Tensor) -> list[tf.Tensor]:
        result = _grad(function, arguments, upstream, before_backward=lambda: begun.append(len(ran)))
        wanted = {id(tensor) for tensor in result}
        used: list[str] = []
        for name, taken, given in reversed(ran[begun[-1] :]):
            if wanted & {id(tensor) for tensor in given}:
                wanted |= {id(tensor) for tensor in taken}
                if name not in BOOKKEEPING and _may_round(name, taken, given):
                    used.append(name)
        found.update(dict.fromkeys(reversed(used)))
        return result

    names = _namespace(format_name)
    names.update({name: _tensor(value, format_name) for name, value in inputs.items()})
    names["grad"] = gradient
    op_callbacks.add_op_callback(note)
    try:
        eval(expression, names)  # noqa: S307  (the project's own table)
    finally:
        op_callbacks.clear_op_callbacks()
    return tuple(found)


def _may_round(name: str, taken: list[Any], given: list[Any]) -> bool:
    """False for what yields no floats (indices, shapes, masks), and for a sum that has one term an element."""
    if not any(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in given):
        return False
    # Of an operand that was not broadcast a tape sums over no axes.
    return not (name in ("Sum", "Mean") and taken[0].shape == given[0].shape)


def unset_attributes(expression: str) -> tuple[str, ...]:
    """Attributes with a default that an expression leaves to TensorFlow, as ``op.attribute``."""
    missing = []
    for call in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(call, ast.Call) and (function := _checked_function(call.func)) is not None:
            given = {keyword.arg for keyword in call.keywords} | _NO_ATTRIBUTES
            for place, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
                default = parameter.default
                left = default is not inspect.Parameter.empty and default is not None and place >= len(call.args)
                if left and name not in given:
                    missing.append(f"{ast.unparse(call.func)}.{name}")
    return tuple(missing)


def _checked_function(node: ast.expr) -> Callable[..., Any] | None:
    """A raw op, or a function of tf that computes; those that only shape have nothing that matters."""
    path = ast.unparse(node)
    if re.fullmatch(r"raw\.\w+", path):
        return getattr(tf.raw_ops, path.removeprefix("raw."))  # type: ignore[no-any-return]
    if re.fullmatch(r"tf\.((nn|math|linalg)\.\w+|reduce_\w+)", path):
        found: Any = tf
        for name in path.split(".")[1:]:
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]
    return None


def versions() -> dict[str, str]:
    """What a result depends on beside the machine: the release, CUDA and the GPU if any."""
    found = {"tensorflow": tf.__version__}
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        found["tensorflow_cuda"] = str(tf.sysconfig.get_build_info().get("cuda_version", ""))
        found["gpu"] = str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""))
    return found


def run_reproducibly() -> None:
    """Make results independent of the number of cores; nothing to do after the first op, which fixes it (above)."""
    with contextlib.suppress(RuntimeError):  # TensorFlow's answer once an op has run
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def _namespace(format_name: str) -> dict[str, Any]:
    return {
        "tf": tf,
        "raw": tf.raw_ops,
        "np": np,
        "dtype": _dtype(format_name),
        "real_dtype": tf.float64 if format_name == "float64" else tf.float32,
        "complex_dtype": tf.complex128 if format_name == "float64" else tf.complex64,
        "bits_dtype": getattr(tf, f"int{8 * _dtype(format_name).size}"),
        "nhwc": _channels_last,
        "nchw": _channels_first,
        "hwio": _filter_to_tensorflow,
        "oihw": _filter_to_torch,
        "grad": _grad,
        "updated": _updated,
    }


def _channels_last(tensor: tf.Tensor) -> tf.Tensor:
    """(n, c, ...) to (n, ..., c)."""
    rank = len(tensor.shape)
    return tf.transpose(tensor, [0, *range(2, rank), 1])


def _channels_first(tensor: tf.Tensor) -> tf.Tensor:
    """(n, ..., c) to (n, c, ...)."""
    rank = len(tensor.shape)
    return tf.transpose(tensor, [0, rank - 1, *range(1, rank - 1)])


def _filter_to_tensorflow(tensor: tf.Tensor) -> tf.Tensor:
    """(out, in, ...) to (..., in, out)."""
    rank = len(tensor.shape)
    return tf.transpose(tensor, [*range(2, rank), 1, 0])


def _filter_to_torch(tensor: tf.Tensor) -> tf.Tensor:
    """(..., in, out) to (out, in, ...)."""
    rank = len(tensor.shape)
    return tf.transpose(tensor, [rank - 1, rank - 2, *range(rank - 2)])


def _grad(
    function: Callable[..., tf.Tensor],
    arguments: Any,
    upstream: tf.Tensor,
    before_backward: Callable[[], None] = lambda: None,
) -> list[tf.Tensor]:
    """Gradients of ``function`` at ``arguments``, a tensor or a tuple of them, for an upstream gradient."""
    leaves = list(_flat(arguments))
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        result = function(*leaves)
    before_backward()
    return [tf.convert_to_tensor(g) for g in tape.gradient(result, leaves, output_gradients=upstream)]


def _updated(function: Callable[..., Any], *tensors: tf.Tensor) -> list[tf.Tensor]:
    """What ``function``, given the handles of variables that start as ``tensors``, leaves in them."""
    variables = [tf.Variable(tensor) for tensor in tensors]
    function(*(variable.handle for variable in variables))
    return [variable.read_value() for variable in variables]


def _dtype(format_name: str) -> tf.DType:
    """The type of a format; the 8-bit ones stand in a room of their own."""
    rooms = (tf, tf.dtypes.experimental) if format_name.startswith("float8") else (tf,)
    return getattr(next((room for room in rooms if hasattr(room, format_name)), rooms[-1]), format_name)


def _tensor(value: np.ndarray, format_name: str) -> tf.Tensor:
    if np.iscomplexobj(value):
        return tf.constant(value, tf.complex128 if format_name == "float64" else tf.complex64)
    if value.dtype.kind != "f":
        return tf.constant(value)
    # Converted by numpy: a Cast would run on TensorFlow's threads, which flush subnormals.
    return tf.constant(value.astype(_dtype(format_name).as_numpy_dtype))


def _array(tensor: tf.Tensor) -> np.ndarray:
    array: np.ndarray = tf.convert_to_tensor(tensor).numpy()
    # The types of ml_dtypes are of kind V.
    return array.astype(np.float32) if array.dtype.kind in "fV" and array.dtype.itemsize < 4 else array


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    elif value is not None:
        yield value
