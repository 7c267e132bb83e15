"""The exact result of an ATen operator's call, by the reference of the catalog's row that computes the same.

Elementwise operators of one tensor find their row by its call (``torch.exp(x)``); others, whose rows hold attributes
fixed, are in :data:`_EXPRESSIONS`, with the arguments of ATen's schema in the places of attributes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscanner.dynamic.batch_trial import budget_of
from opscanner.dynamic.budgets import Budget
from opscanner.dynamic.inputs.derive import inside_domain
from opscanner.dynamic.oracle.oracle import TIER_BALLS, TIER_FLOAT64, TIER_LONGDOUBLE, Reference, evaluate_reference
from opscanner.dynamic.running.kinds import base_name
from opscanner.errors import OpscannerError
from opscanner.operators.catalog import Operator, load_catalog

#: ATen operator -> (row of the catalog, reference). A name in braces stands for the argument of that name in ATen's
#: schema: a tensor's for its values, any other's for what was given.
_EXPRESSIONS = {
    "add": ("add", "{self} + {times}{other}"),
    "sub": ("sub", "{self} - {times}{other}"),
    "rsub": ("sub", "{other} - {times}{self}"),
    "mul": ("mul", "{self} * {other}"),
    "div": ("div", "{self} / {other}"),
    "pow": ("pow", "power({self}, {exponent})"),
    "atan2": ("atan2", "atan2({self}, {other})"),
    "hypot": ("hypot", "hypot({self}, {other})"),
    "logaddexp": ("logaddexp", "logaddexp({self}, {other})"),
    "xlogy": ("xlogy", "xlogy({self}, {other})"),
    "fmod": ("fmod", "fmod({self}, {other})"),
    "addcmul": ("addcmul", "{self} + {value} * {tensor1} * {tensor2}"),
    "addcdiv": ("addcdiv", "{self} + {value} * {tensor1} / {tensor2}"),
    "gelu": ("gelu.erf", "{gelu}({self})"),
    "elu": ("elu", "{elu}({self})"),
    "softplus": ("softplus", "softplus({self})"),
    "leaky_relu": ("leaky_relu", "leaky_relu({self}, {negative_slope})"),
    "sigmoid_backward": ("sigmoid_grad", "sigmoid_grad({output}, {grad_output})"),
    "tanh_backward": ("tanh_grad", "tanh_grad({output}, {grad_output})"),
    "silu_backward": ("silu_grad", "silu_grad({self}, {grad_output})"),
    "gelu_backward": ("gelu_grad.erf", "{gelu}_grad({self}, {grad_output})"),
    "_softmax": ("softmax", "softmax({self}, {dim})"),
    "_log_softmax": ("log_softmax", "log_softmax({self}, {dim})"),
    "_softmax_backward_data": (
        "softmax", "{output} * ({grad_output} - total({grad_output} * {output}, {dim}, True))"
    ),
    "logsumexp": ("logsumexp", "logsumexp({self}, {dim}, {keepdim})"),
    "sum": ("sum", "total({self}, {dim}, {keepdim})"),
    "mean": ("mean", "mean({self}, {dim}, {keepdim})"),
    "prod": ("prod", "prod({self}, {dim}, {keepdim})"),
    "var": ("var", "var({self}, {dim}, {correction}, {keepdim})"),
    "std": ("std", "std({self}, {dim}, {correction}, {keepdim})"),
    "cumsum": ("cumsum", "cumsum({self}, {dim})"),
    "linalg_vector_norm": ("linalg_vector_norm", "norm({self}, {ord}, {dim}, {keepdim})"),
    "dot": ("dot", "vector_dot({self}, {tensor})"),
    "mv": ("mv", "matrix_vector({self}, {vec})"),
    "mm": ("mm", "matmul({self}, {mat2})"),
    "bmm": ("bmm", "matmul({self}, {mat2})"),
    "addmm": ("addmm", "{beta} * {self} + {alpha} * matmul({mat1}, {mat2})"),
    "baddbmm": ("addmm", "{beta} * {self} + {alpha} * matmul({batch1}, {batch2})"),
    "convolution": (
        "conv2d", "conv({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})"
    ),
    "native_layer_norm": ("layer_norm", "layer_norm({input}, {dimensions}, {weight}, {bias}, {eps})"),
    "native_group_norm": ("group_norm", "group_norm({input}, {group}, {weight}, {bias}, {eps})"),
    "convolution_backward": ("convolution_backward", "{gradients}"),
    "native_batch_norm": ("batch_norm_training", "batch_norm({input}, {weight}, {bias}, {eps})"),
    "_native_batch_norm_legit_no_training": (
        "batch_norm_inference",
        "batch_norm_inference({input}, {running_mean}, {running_var}, {weight}, {bias}, {eps})",
    ),
    "_fused_rms_norm": ("rms_norm", "rms_norm({input}, {weight}, {eps})"),
    "_scaled_dot_product_flash_attention_for_cpu": (
        "scaled_dot_product_attention",
        "attention({query}, {key}, {value}, {scale}, {is_causal}, None, {attn_mask})",
    ),
}  # fmt: skip
_SAME = {
    "_safe_softmax": "_softmax",
    "_native_batch_norm_legit": "native_batch_norm",
    "cudnn_batch_norm": "native_batch_norm",
}
_ELEMENTWISE = frozenset({
    "add", "sub", "rsub", "mul", "div", "pow", "atan2", "hypot", "logaddexp", "xlogy", "fmod", "addcmul", "addcdiv",
    "gelu", "elu", "softplus", "leaky_relu", "sigmoid_backward", "tanh_backward", "silu_backward", "gelu_backward",
})  # fmt: skip

#: Alpha and scale that selu calls elu with (aten/src/ATen/native/Activation.cpp).
_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946)

#: Elements of all inputs that a reference is asked for: of elementwise operators, and of others.
_MOST_ELEMENTWISE, _MOST_OTHER = 1 << 20, 1 << 18
#: Elements that balls may decide.
_DECIDED_ELEMENTWISE, _DECIDED_OTHER = 4096, 512

_TIERS = {
    TIER_FLOAT64: "float64 (exact here)",
    TIER_LONGDOUBLE: "float64 and longdouble, which agree",
    TIER_BALLS: "interval arithmetic",
}


class NoTruthError(Exception):
    """Why there is no exact result."""


@dataclass(frozen=True)
class Truth:
    """Exact results of the first outputs of a call.

    Parameters
    ----------
    row : Operator
        The row of the catalog that has the reference and the error budget.
    expression : str
        The reference, with the call's arguments in it.
    """

    row: Operator
    expression: str
    references: tuple[Reference, ...]

    def budget(self, format_: str) -> Budget:
        """What a right implementation may err in a format."""
        return budget_of(self.row, format_)

    @property
    def tier(self) -> str:
        """The best arithmetic that was needed, in words."""
        return _TIERS[max((int(one.tier.max(initial=1)) for one in self.references), default=1)]


def true_results(operator: Any, arguments: Mapping[str, Any], arrays: Mapping[str, np.ndarray], format_: str) -> Truth:
    """The exact results of a call for the inputs that it got.

    Parameters
    ----------
    arguments : mapping
        All arguments by the names of the schema, defaults filled in; a tensor's place is held by the name of its array.
    arrays : mapping
        Values of tensors by name, those of floating point as float64.
    format_ : str
        The result's format.

    Raises
    ------
    NoTruthError
        When no row is known to compute the same, or its reference is not to be had for these inputs.
    """
    row, expression, elementwise = _reference_of(operator, arguments, arrays, format_)
    if any(array.dtype.kind == "c" for array in arrays.values()):
        raise NoTruthError("its inputs are complex")
    used = {name: array for name, array in arrays.items() if re.search(rf"\b{name}\b", expression)}
    size = sum(array.size for array in used.values())
    most = _MOST_ELEMENTWISE if elementwise else _MOST_OTHER
    if size > most:
        raise NoTruthError(f"{size:,} elements are more than the {most:,} that the oracle is asked for")
    if elementwise:
        shape = np.broadcast_shapes(*(array.shape for array in used.values()))
        used = {name: np.array(np.broadcast_to(array, shape)) for name, array in used.items()}
    limit = _DECIDED_ELEMENTWISE if elementwise else _DECIDED_OTHER
    try:
        references = evaluate_reference(expression, used, format_, elementwise, decide_limit=limit)
    except (OpscannerError, MemoryError) as error:
        raise NoTruthError(f"its reference cannot be evaluated on these inputs: {error}") from error
    return Truth(row, expression, references)


def has_reference(operator: Any) -> bool:
    """True for operators that are mapped to a row of the catalog, some form of them at least."""
    return _plain_name(operator) in {*_EXPRESSIONS, *_unary_rows()}


def _plain_name(operator: Any) -> str:
    """``exp`` of ``aten::exp_`` and ``aten::exp.out``; of the same operator under several names one."""
    name = base_name(operator)
    name = name if name.endswith("__") else name.rstrip("_")
    return _SAME.get(name, name)


def _reference_of(
    operator: Any, arguments: Mapping[str, Any], arrays: Mapping[str, np.ndarray], format_: str
) -> tuple[Operator, str, bool]:
    """The catalog's row, the reference with the call's arguments in it, and whether it is elementwise."""
    name = _plain_name(operator)
    if name == "native_batch_norm" and arguments.get("training") is False:
        name = "_native_batch_norm_legit_no_training"
    if name in _ELEMENTWISE and format_ != "float64":
        # Kernels hold numbers that come beside tensors in float32, in 16 bit too.
        arguments = {key: float(np.float32(one)) if isinstance(one, float) else one for key, one in arguments.items()}
    if name in _EXPRESSIONS:
        identifier, expression = _EXPRESSIONS[name]
        values = _values(name, arguments, arrays)
        texts = {key: _text(value) for key, value in values.items()}
        try:
            return _by_id()[identifier], expression.format(**texts), name in _ELEMENTWISE
        except KeyError as error:
            raise NoTruthError(f"its reference needs the argument {error}") from None
    row = _unary_rows().get(name)
    if row is None:
        raise NoTruthError(f"no row of the catalog is known to compute what {name} computes")
    tensors = [key for key, value in arguments.items() if isinstance(value, _Name)]
    if len(tensors) != 1:
        raise NoTruthError(f"{name} was called with {len(tensors)} tensors, its row has one")
    defaults = {one.name: one.default_value for one in operator._schema.arguments}
    if any(value != defaults[key] for key, value in arguments.items() if key not in tensors):
        raise NoTruthError(f"the reference of {row.id} knows {name} with its defaults alone")
    given = arrays[arguments[tensors[0]]]
    if row.domain and not bool(np.all(inside_domain(row, {"x": given}, given.shape))):
        raise NoTruthError(f"some inputs are outside of what the reference of {row.id} knows: {row.domain}")
    return row, re.sub(r"\bx\b", str(arguments[tensors[0]]), row.reference), True


def _values(name: str, arguments: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Arguments as references take them: defaults that ATen leaves to the kernel, and forms that references have not.

    Raises
    ------
    NoTruthError
        For forms of an operator that its reference does not know.
    """
    values: dict[str, Any] = {"dim": None, "keepdim": False, "alpha": 1, **arguments}
    if name == "_softmax" and any(np.isneginf(array).all(values["dim"]).any() for array in arrays.values()):
        raise NoTruthError("a row of minus infinity has no softmax")
    if values["dim"] == []:
        values["dim"] = None
    if name in ("add", "sub", "rsub"):
        values["times"] = _Name("" if values["alpha"] == 1 else f"{_text(values['alpha'])} * ")
    elif name in ("var", "std"):
        unbiased = values.get("unbiased")
        correction = values.get("correction")
        values["correction"] = 1 if correction is None and unbiased in (None, True) else correction or 0
    elif name in ("gelu", "gelu_backward"):
        values["gelu"] = _Name("gelu_tanh" if values.get("approximate") == "tanh" else "gelu")
    elif name == "elu":
        is_selu = (float(values["alpha"]), float(values["scale"])) == _SELU
        values["elu"] = _Name("selu" if is_selu else "elu")
        values["is_known"] = is_selu or (values["alpha"], values["scale"], values["input_scale"]) == (1, 1, 1)
    elif name == "convolution_backward":
        values["gradients"] = _Name(_gradients_of_convolution(values))
    elif name == "native_layer_norm":
        values["dimensions"] = len(values["normalized_shape"])
    elif name == "_scaled_dot_product_flash_attention_for_cpu" and values.get("scale") is None:
        values["scale"] = arrays[values["query"]].shape[-1] ** -0.5
    unknown = {
        "div": values.get("rounding_mode") is not None,
        "elu": not values.get("is_known", True),
        "softplus": (values.get("beta"), values.get("threshold")) != (1, 20),
        "convolution": bool(values.get("transposed")),
        "convolution_backward": bool(values.get("transposed")),
        "_fused_rms_norm": len(values.get("normalized_shape", [0])) != 1 or values.get("eps") is None,
        "_scaled_dot_product_flash_attention_for_cpu": bool(values.get("dropout_p")),
    }
    if unknown.get(name):
        raise NoTruthError(f"the reference of {name} does not know this form of it")
    return values


def _gradients_of_convolution(values: Mapping[str, Any]) -> str:
    """The gradients that are asked for, in their order: of the input, the weight, the bias."""
    given = {name: _text(value) for name, value in values.items()}
    attributes = ", ".join(given[name] for name in ("stride", "padding", "dilation", "groups"))
    parts = [
        f"grad(lambda a: conv(a, {given['weight']}, None, {attributes}), {given['input']}, {given['grad_output']})[0]",
        f"grad(lambda a: conv({given['input']}, a, None, {attributes}), {given['weight']}, {given['grad_output']})[0]",
        f"total({given['grad_output']}, (0, *range(2, {given['grad_output']}.ndim)))",
    ]
    return f"({', '.join(one for one, wanted in zip(parts, values['output_mask'], strict=True) if wanted)},)"


class _Name(str):
    """A name in an expression, where a plain string would be text."""

    __slots__ = ()


def named(name: str) -> str:
    """What holds a tensor's place among arguments: the name of its array."""
    return _Name(name)


def _text(value: Any) -> str:
    if isinstance(value, _Name):
        return str(value)
    if isinstance(value, list):
        return repr(tuple(value))
    if isinstance(value, float) and not np.isfinite(value):
        return f"({'-' if value < 0 else ''}np.{'nan' if np.isnan(value) else 'inf'})"
    is_negative = isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0
    return f"({value!r})" if is_negative else repr(value)


@functools.cache
def _by_id() -> Mapping[str, Operator]:
    return {one.id: one for one in load_catalog()}


@functools.cache
def _unary_rows() -> Mapping[str, Operator]:
    """ATen operators of one tensor and nothing else -> their rows, by calls such as ``torch.exp(x)``."""
    found: dict[str, Operator] = {}
    for row in load_catalog():
        call = row.calls.get("pytorch", "")
        is_plain = [(item.name, item.kind) for item in row.inputs] == [("x", "float")]
        match = re.fullmatch(r"(torch|F|torch\.special)\.(\w+)\(x\)", call)
        if match and is_plain and row.elementwise and row.reference:
            name = f"special_{match[2]}" if match[1] == "torch.special" else match[2]
            found.setdefault(name, row)
            if match[1] == "torch.special":
                found.setdefault(match[2], row)
    return found
