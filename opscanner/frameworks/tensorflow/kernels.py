"""What TensorFlow's registries say of an op: the floating formats that its kernels on a device take.

An op's definition lists the types of each attribute, each registered kernel narrows them. Both registries are internal
modules of tensorflow (``op_def_registry``, ``kernels``): there is no public door to them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

FORMATS = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64")


def ops() -> tuple[str, ...]:
    """All ops of the release that ``tf.raw_ops`` offers."""
    return tuple(name for name in dir(tf.raw_ops) if name[0].isupper() and op_def_registry.get(name) is not None)


@functools.cache
def formats_of(op: str, device: str) -> frozenset[str] | None:
    """Floating formats for which a kernel of an op is registered on ``cpu`` or ``cuda``.

    Of the op's type attributes the first counts that an input has and that takes floats, else an output's. None for an
    op without such an attribute (its formats are fixed, or it has no floats), or without any definition.

    >>> sorted(formats_of("Selu", "cpu"))
    ['bfloat16', 'float16', 'float32', 'float64']
    """
    definition = op_def_registry.get(op)
    if definition is None:
        return None
    device_type = "GPU" if device.startswith("cuda") else "CPU"
    served = [one for one in kernels.get_registered_kernels_for_op(op).kernel if one.device_type in _kinds(device_type)]
    allowed = {
        attribute.name: _floats(attribute.allowed_values.list.type) if attribute.HasField("allowed_values") else None
        for attribute in definition.attr
        if attribute.type == "type"
    }
    told = [argument.type_attr for argument in (*definition.input_arg, *definition.output_arg)]
    for name in dict.fromkeys((*told, *allowed)):
        if name not in allowed or (allowed[name] is not None and not allowed[name]):
            continue
        taken = [_taken(kernel, name) for kernel in served]
        found: set[str] = set().union(*(set(FORMATS) if one is None else one for one in taken))
        if found or not served:
            limit = allowed[name]
            return frozenset(found if limit is None else found & limit)
    return None


def _kinds(device_type: str) -> tuple[str, ...]:
    """``DEFAULT`` kernels (of host memory) serve every device."""
    return (device_type, "DEFAULT")


def _taken(kernel: object, attribute: str) -> set[str] | None:
    """The formats that a kernel takes for an attribute; None for one that does not say."""
    for constraint in kernel.constraint:  # type: ignore[attr-defined]
        if constraint.name == attribute:
            return _floats(constraint.allowed_values.list.type)
    return None


def _floats(types: Iterable[int]) -> set[str]:
    return {tf.as_dtype(one).name for one in types} & set(FORMATS)
