"""Headers that torchgen makes for a checkout: run as a program of its own, never imported by the package.

``python -I -B torchgen_driver.py SITE_PACKAGES SOURCE OUTPUT``

SITE_PACKAGES holds the *installed* ``torchgen``: the checkout's own Python is never executed. SOURCE is laid out as
``aten/src/ATen`` (``native/native_functions.yaml``, ``native/tags.yaml``, ``templates/``). Everything is written under
OUTPUT; an audit hook refuses any other write, any process and any socket, because the checkout's yaml decides on file
names.

The installed torchgen may be newer than the checkout. Types that newer versions have dropped from the schema language
are put back from ``FORMER_TYPES`` (torch 2.13 no longer knows ``Dimname``, which is in every checkout up to 2.12).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

# Schema type -> (C++ namespace, C++ name), as torchgen/api/types/types.py of the versions that had it.
FORMER_TYPES = {
    "Dimname": ("at", "Dimname"),
    "ConstQuantizerPtr": ("at", "ConstQuantizerPtr"),
    "Stream": ("at", "Stream"),
    "QScheme": ("at", "QScheme"),
    "Storage": ("at", "Storage"),
    "DimVector": ("at", "DimVector"),
}

OPERATOR_NAME = re.compile(r"^[A-Za-z_]\w*(::[A-Za-z_]\w*)?(\.[A-Za-z_]\w*)?$")
REFUSED_EVENTS = ("subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "socket.", "ctypes.")
WRITING_EVENTS = {
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "shutil.copyfile", "shutil.move", "shutil.rmtree",
}  # fmt: skip
TWO_PATHS = {"os.rename", "os.link", "shutil.copyfile", "shutil.move"}


def refuse_writes_outside(output: Path) -> None:
    """After this call the process writes below ``output`` only, and starts nothing."""
    allowed = str(output) + os.sep

    def is_inside(path: object) -> bool:
        if isinstance(path, int):
            return True
        text = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
        return (text + os.sep).startswith(allowed)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(REFUSED_EVENTS):
            raise PermissionError(f"torchgen tried {event} {arguments!r}")
        if event == "open":
            path, mode, flags = arguments
            writes = any(letter in (mode or "") for letter in "wax+") or (
                isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            )
            if writes and not is_inside(path):
                raise PermissionError(f"torchgen tried to write {path!r}, outside {output}")
        elif event in WRITING_EVENTS:
            changed = arguments[1:2] if event == "os.symlink" else arguments[: 2 if event in TWO_PATHS else 1]
            if not all(is_inside(path) for path in changed):
                raise PermissionError(f"torchgen tried {event} on {arguments!r}, outside {output}")

    sys.addaudithook(audit)


def restore_former_types() -> list[str]:
    """Names of the schema types that had to be put back into the installed torchgen."""
    from torchgen import model  # type: ignore[import-not-found, import-untyped, unused-ignore]

    restored = [name for name in FORMER_TYPES if name not in model.BaseTy.__members__]
    for name in restored:
        member = object.__new__(model.BaseTy)
        member._name_, member._value_ = name, 1000 + len(model.BaseTy.__members__)
        member.__objclass__ = model.BaseTy
        setattr(model.BaseTy, name, member)
        model.BaseTy._member_map_[name] = member
        model.BaseTy._member_names_.append(name)
        model.BaseTy._value2member_map_[member._value_] = member
    from torchgen.api.types import types  # type: ignore[import-not-found, import-untyped, unused-ignore]

    for name in restored:
        types.BaseTypeToCppMapping[model.BaseTy[name]] = types.BaseCppType(*FORMER_TYPES[name])
    return restored


def accept_older_entries() -> None:
    """Entries that only newer torchgen refuses are read as the checkout's own version read them."""
    import copy
    import dataclasses

    from torchgen import model

    read_entry = model.NativeFunction.from_yaml

    def from_yaml(entry: dict[str, Any], *rest: Any, **named: Any) -> Any:
        entry, by_const_ref = copy.deepcopy(entry), False
        for _attempt in range(3):
            try:
                function, metadata = read_entry(copy.deepcopy(entry), *rest, **named)
            except AssertionError as error:
                if "nondeterministic_seeded tag missing" in str(error):
                    tags = entry.get("tags", [])
                    entry["tags"] = [*(tags if isinstance(tags, list) else tags.split(", ")), "nondeterministic_seeded"]
                elif "issues/145522" in str(error):  # const Tensor& out, refused since 2.7
                    by_const_ref = entry.pop("use_const_ref_for_mutable_tensors")
                else:
                    raise
            else:
                if by_const_ref:
                    function = dataclasses.replace(function, use_const_ref_for_mutable_tensors=True)
                return function, metadata
        raise AssertionError(f"torchgen refuses {entry.get('func')}")

    model.NativeFunction.from_yaml = staticmethod(from_yaml)


class _Everything:
    """Holds every name: for lists that torchgen consults only to complain."""

    def __contains__(self, name: object) -> bool:
        return True


def accept_older_operators(gen: Any) -> None:
    """torchgen's lists of known exceptions are those of its own version; the checkout's exceptions differ."""
    from torchgen import native_function_generation

    native_function_generation.FUNCTIONAL_OPS_THAT_CANNOT_GET_AN_OUT_VARIANT = _Everything()
    native_function_generation.OUT_OPS_THAT_DONT_GET_GROUPED_PROPERLY = _Everything()
    gen.error_check_native_functions = lambda functions: None  # lint of names, stricter in each version


def check_operator_names(native_functions: Path) -> None:
    """Nothing, when every operator's name is an identifier: torchgen makes file names of them."""
    for number, line in enumerate(native_functions.read_text(encoding="utf-8").splitlines(), 1):
        found = re.match(r"^\s*-?\s*[\"']?func[\"']?\s*:\s*[\"']?([^(\"']*)", line)
        if found and not OPERATOR_NAME.match(found[1].strip()):
            raise SystemExit(f"{native_functions}:{number}: {found[1].strip()!r} is not an operator's name")


def main(arguments: list[str]) -> None:
    site_packages, source, output = arguments[0], Path(arguments[1]), Path(os.path.realpath(arguments[2]))
    sys.path.insert(0, site_packages)
    check_operator_names(source / "native" / "native_functions.yaml")
    import torchgen  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if os.path.realpath(os.path.dirname(os.path.dirname(torchgen.__file__))) != os.path.realpath(site_packages):
        raise SystemExit(f"torchgen came from {torchgen.__file__}, not from {site_packages}")
    import torchgen.gen as gen  # type: ignore[import-not-found, import-untyped, unused-ignore]

    for name in restore_former_types():
        print(f"schema type {name} put back")
    accept_older_entries()
    accept_older_operators(gen)
    refuse_writes_outside(output)
    sys.argv = [
        "torchgen", "--source-path", str(source), "--install-dir", str(output / "ATen"),
        "--aoti-install-dir", str(output / "aoti"), "--per-operator-headers", "--generate", "headers",
    ]  # fmt: skip
    gen.main()


if __name__ == "__main__":
    main(sys.argv[1:])
