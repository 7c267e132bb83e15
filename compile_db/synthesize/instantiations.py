"""A driver unit for a header: a source that includes it and instantiates what it declares.

Templates are bound to the formats that frameworks compile their kernels for; other parameters are guessed by name, one
row each. What no row fits is not instantiated, and said so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compile_db.synthesize.declarations import Declaration, Parameter


@dataclass(frozen=True)
class Spelling:
    """How a framework spells what templates are bound to."""

    formats: tuple[str, ...]
    device: str


PYTORCH = Spelling(("at::Half", "at::BFloat16", "float", "double"), "")
TENSORFLOW_GPU = Spelling(("Eigen::half", "Eigen::bfloat16", "float", "double"), "Eigen::GpuDevice")
TENSORFLOW_CPU = Spelling(("Eigen::half", "Eigen::bfloat16", "float", "double"), "Eigen::ThreadPoolDevice")

FORMAT, ACCUMULATOR, DEVICE = "a format", "an accumulator's format", "a device"
# Names of type parameters, and what stands for them. The first row that fits counts.
TYPES = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (r"Device", DEVICE),
        (r"(stat_)?acc(scalar)?_?t|accT|opmath_t|acc_type|AccT|T_ACC|accreal|compute_t|AccumT|param_type", ACCUMULATOR),
        (r"Index|index_t|IndexType|index_type|Tindex|TIndex|Tidx|Tindices|offset_t|Toffsets|SegmentId|Tsegmentids|TI"
         r"|Tmultiples|Tpaddings|SliceIndex|Tlen|Tperm|Tshape|Tbatch\w*|Targmax|OutIdxType", "int64_t"),
        (r"T\d?|U|[A-Za-z]*scalar(_t|_type)?|Scalar|[A-Z]?[a-z]*Scalar|SCALAR_TYPE|TYPE|DType|dtype|data_t|value_t"
         r"|(in|out|input|output|arg\d|src|dst|grad|exp_avg|exp_avg_sq)_(t|type)|dt|Tin|Tout|TIn|TOut|IN_T|OUT_T"
         r"|InT|OutT|Tweights|Tinit|VALUE_TYPE|value_type|Input|Output|InputType|OutputType|Type", FORMAT),
    )
)  # fmt: skip
# Types and names of other parameters, and the values to try.
VALUES = tuple(
    (re.compile(kind), re.compile(name), values)
    for kind, name, values in (
        (r"bool", r".*", ("false", "true")),
        (r"(int|int32_t|int64_t|unsigned|size_t|std :: size_t)", r"NDIMS?|[Dd]ims?|IXDIM|Rank|RANK|num_dims", ("2",)),
        (r"(int|int32_t|unsigned|size_t)", r"(\w+_)?vec_size|VEC_SIZE|[Aa]lignment|ILP|vt0?|unroll_factor", ("4",)),
        (r"int", r"N|kWidth|IndexCount|depth|num_outputs", ("2",)),
        (r"int", r"nt|num_threads|NumThreads|max_threads", ("128",)),
        (r"int", r"kKnown\w+|kBlockDepth", ("-1",)),
    )
)  # fmt: skip
MOST_COMBINATIONS = 16
_SPECIFIERS = re.compile(
    r"^(static|inline|constexpr|extern|__device__|__host__|__global__|__forceinline__|__inline__|__inline|virtual"
    r"|[A-Z][A-Z0-9]*_[A-Z0-9_]+)$"
)
_ON_DEVICE = {"__device__", "C10_DEVICE", "C10_HOST_DEVICE", "GPU_LAMBDA", "EIGEN_DEVICE_FUNC", "GPUDEVICE"}


@dataclass(frozen=True)
class Driver:
    """The text of a driver unit, and what of the header it leaves out, with the reason."""

    text: str
    instances: int
    left_out: tuple[str, ...]


def make_driver(
    header: str, declarations: Sequence[Declaration], spelling: Spelling, *, cuda: bool, first: Sequence[str] = ()
) -> Driver:
    """A source that includes ``first`` and ``header`` and instantiates the declarations.

    Class templates are instantiated whole; of a function its address is taken, by a cast to its type where the header
    overloads it.
    """
    lines = [f"#include <{name}>" for name in (*first, header)]
    overloads = Counter(declaration.qualified for declaration in declarations)
    left_out, instances = [], 0
    for number, declaration in enumerate(declarations):
        bound = list(bindings(declaration.parameters, spelling))
        if declaration.parameters and isinstance(bound[0], str):
            left_out.append(f"{declaration.name} ({bound[0]})")
            continue
        for place, binding in enumerate(bound):
            if isinstance(binding, str):
                continue
            instances += 1
            if declaration.kind == "class":
                lines.append(f"template struct {declaration.qualified}<{', '.join(binding.values())}>;")
            else:
                is_overloaded = overloads[declaration.qualified] > 1
                lines += _address(declaration, binding, f"{number}_{place}", is_overloaded, cuda)
    return Driver("\n".join([*lines, ""]), instances, tuple(left_out))


def bindings(parameters: Sequence[Parameter], spelling: Spelling) -> Iterator[dict[str, str] | str]:
    """Arguments for each parameter, for each format; or one text: the parameter that nothing fits.

    All parameters that are formats are bound to the same one, accumulators to float or wider. Parameters from the
    first on whose default nothing else fits are left to their defaults.
    """
    if not parameters:
        yield {}
        return
    meanings: list[tuple[str, ...] | str] = []
    for parameter in parameters:
        meaning = _meaning(parameter, spelling)
        if meaning is None and parameter.has_default:
            break
        if meaning is None:
            yield " ".join(filter(None, (parameter.type, parameter.name)))
            return
        meanings.append(meaning)
    named = [(p.name or f"unnamed{i}", m) for i, (p, m) in enumerate(zip(parameters, meanings, strict=False))]
    has_format = any(meaning in (FORMAT, ACCUMULATOR) for _, meaning in named)
    made: list[dict[str, str]] = []
    for one in spelling.formats if has_format else ("",):
        partial: list[dict[str, str]] = [{}]
        for name, meaning in named:
            if isinstance(meaning, tuple):
                partial = [{**binding, name: value} for binding in partial for value in meaning]
            else:
                accumulator = one if one == "double" else "float"
                value = one if meaning == FORMAT else accumulator
                partial = [{**binding, name: value} for binding in partial]
        made += partial
    yield from made[:MOST_COMBINATIONS]


def _meaning(parameter: Parameter, spelling: Spelling) -> tuple[str, ...] | str | None:
    """Values to try, or that it is a format; None when no row fits."""
    if parameter.kind == "type":
        meaning = next((meaning for pattern, meaning in TYPES if pattern.fullmatch(parameter.name)), None)
        if meaning == DEVICE:
            return (spelling.device,) if spelling.device else None
        return meaning if meaning in (FORMAT, ACCUMULATOR, None) else (meaning,)
    if parameter.kind == "value":
        rows = (v for kind, name, v in VALUES if kind.fullmatch(parameter.type) and name.fullmatch(parameter.name))
        return None if parameter.has_default and not parameter.name else next(rows, None)
    return None


def _address(
    declaration: Declaration, binding: Mapping[str, str], number: str, is_overloaded: bool, cuda: bool
) -> list[str]:
    """A variable that holds the function's address; its initializer leads to the instance."""
    on_device = cuda and "__global__" not in declaration.before and not _ON_DEVICE.isdisjoint(declaration.before)
    variable = "__device__ auto" if on_device else "auto"
    arguments = f"<{', '.join(binding)}>" if binding else ""
    # Aliases of the parameters' own names let the function's type be repeated as it is written.
    by_name = {p.name: p for p in declaration.parameters}
    aliases = [
        f"using {name} = {value};" if by_name.get(name) is None or by_name[name].kind == "type"
        else f"constexpr {by_name[name].type.replace(' :: ', '::')} {name} = {value};"
        for name, value in binding.items()
    ]  # fmt: skip
    target = f"&::{declaration.qualified}{arguments}"
    result = " ".join(_result(declaration.before))
    if is_overloaded and not re.search(r"\bauto\b", result):  # an address of type auto cannot choose
        target = f"static_cast<{result} (*)({declaration.arguments})>({target})"
    opened = [f"namespace {part} {{" if part else "namespace {" for part in declaration.namespace]
    inside = f"namespace opscanner_{number} {{ {' '.join(aliases)} {variable} *const address = {target}; }}"
    return [" ".join([*opened, inside, *("}" for _ in opened)])]


def _result(before: Sequence[str]) -> list[str]:
    """A function's result type: its tokens without specifiers, attributes and macros."""
    kept: list[str] = []
    index = 0
    while index < len(before):
        word = before[index]
        if word == "[[":
            index = before.index("]]", index)
        elif word in ("__launch_bounds__", "__attribute__", "C10_LAUNCH_BOUNDS_1", "C10_LAUNCH_BOUNDS_2"):
            depth = 0
            while index + 1 < len(before):
                index += 1
                depth += (before[index] == "(") - (before[index] == ")")
                if depth == 0:
                    break
        elif not _SPECIFIERS.match(word):
            kept.append(word)
        index += 1
    return kept
