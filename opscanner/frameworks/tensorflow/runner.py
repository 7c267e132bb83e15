"""Runs TensorFlow raw ops: the one place of the package that imports tensorflow.

Calls are expressions of the project's own tables (``data/operator_pairs.csv``), never of a user.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Read once, at import: with oneDNN, float32 runs other kernels than those of tensorflow/core/kernels, which scans see.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

#: Attributes without effect on a right call's values that came after TensorFlow 2.14: hints for automatic
#: differentiation, a sparse gradient, what to do with an index out of range.
_NO_ATTRIBUTES = frozenset({"name", "grad_a", "grad_b", "grad_x", "grad_y", "sparse_gradient", "bad_indices_policy"})


def evaluate(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> list[np.ndarray]:
    """The values of an expression over ``inputs``, floats among them in the named format; one array an output."""
    names = _namespace(format_name)
    names.update({name: _tensor(value, format_name) for name, value in inputs.items()})
    result = eval(expression, names)  # noqa: S307  (the project's own table)
    return [_array(tensor) for tensor in _flat(result)]


def unset_attributes(expression: str) -> tuple[str, ...]:
    """Attributes with a default that an expression leaves to TensorFlow, as ``op.attribute``."""
    missing = []
    for call in ast.walk(ast.parse(expression, mode="eval")):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="raw"), attr=op), keywords=keywords):
                given = {keyword.arg for keyword in keywords}
                for name, parameter in inspect.signature(getattr(tf.raw_ops, op)).parameters.items():
                    if parameter.default is not inspect.Parameter.empty and name not in given | _NO_ATTRIBUTES:
                        missing.append(f"{op}.{name}")
    return tuple(missing)


def versions() -> dict[str, str]:
    """What a result depends on beside the machine: the release."""
    return {"tensorflow": tf.__version__}


def run_reproducibly() -> None:
    """Make results independent of the number of cores; before the first op."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _namespace(format_name: str) -> dict[str, Any]:
    return {
        "tf": tf,
        "raw": tf.raw_ops,
        "np": np,
        "dtype": getattr(tf, format_name),
        "nhwc": _channels_last,
        "nchw": _channels_first,
        "hwio": _filter_to_tensorflow,
        "oihw": _filter_to_torch,
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


def _updated(function: Callable[..., Any], *tensors: tf.Tensor) -> list[tf.Tensor]:
    """What ``function``, given the handles of variables that start as ``tensors``, leaves in them."""
    variables = [tf.Variable(tensor) for tensor in tensors]
    function(*(variable.handle for variable in variables))
    return [variable.read_value() for variable in variables]


def _tensor(value: np.ndarray, format_name: str) -> tf.Tensor:
    if np.iscomplexobj(value):
        return tf.constant(value, tf.complex128 if format_name == "float64" else tf.complex64)
    return tf.constant(value, getattr(tf, format_name)) if value.dtype.kind == "f" else tf.constant(value)


def _array(tensor: tf.Tensor) -> np.ndarray:
    array: np.ndarray = tf.convert_to_tensor(tensor).numpy()
    return array.astype(np.float32) if array.dtype.name in ("bfloat16", "float16") else array


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    elif value is not None:
        yield value
