"""Words of filters that no database can hold: refused, because an empty answer to a typing error looks like one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from opscanner.errors import UsageError
from opscanner.precision.formats import COMPLEX_PARTS, FORMATS, is_floating, is_integer

#: As ``scan.framework`` says it.
FRAMEWORKS = ("pytorch", "tensorflow", "none")
_INTEGERS = ("bool", *(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")))
#: What people write for a format in other places.
_ALIASES = {
    "half": "float16", "fp16": "float16", "f16": "float16", "float": "float32", "fp32": "float32", "f32": "float32",
    "single": "float32", "double": "float64", "fp64": "float64", "f64": "float64", "bf16": "bfloat16",
    "brain": "bfloat16", "tf32": "tfloat32", "fp8": "float8_e4m3fn", "float8": "float8_e4m3fn", "int": "int32",
}  # fmt: skip


def check_format(name: str | None, *, integers: bool = False) -> None:
    """Refuses what is no format; with ``integers`` an integer's name will do too.

    Raises
    ------
    UsageError
        Names the format that may be meant, and all that there are.
    """
    if name is None or is_floating(name) or (integers and is_integer(name)):
        return
    known = (*FORMATS, *COMPLEX_PARTS, *(_INTEGERS if integers else ()))
    meant = _ALIASES.get(name.lower())
    what = f"there is no format {name!r}" if integers else f"there is no floating-point format {name!r}"
    raise UsageError(what, _advice(name, known, [meant] if meant in known else []))


def check_framework(name: str | None) -> None:
    """Refuses what is no framework that a scan can be of; one that the database holds no scan of passes.

    Raises
    ------
    UsageError
        Names the frameworks.
    """
    if name is None or name in FRAMEWORKS:
        return
    plain, version, _ = name.partition("@")
    if version and plain in FRAMEWORKS:
        advice = f"{plain}: this filter takes no version"
    else:
        advice = _advice(name, FRAMEWORKS, ["pytorch"] if plain.lower() in ("torch", "aten") else [])
    raise UsageError(f"there is no framework {name!r}", advice)


def _advice(name: str, known: Iterable[str], meant: list[str]) -> str:
    known = list(known)
    near = meant or difflib.get_close_matches(name.lower(), known, n=3)
    asked = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{asked}known are {', '.join(known)}"
