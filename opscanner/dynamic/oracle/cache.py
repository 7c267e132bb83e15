"""Reference results kept in a folder, one file an evaluation, until the expression, an input or the oracle changes."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flint
import numpy as np
import scipy

#: Whose functions the results are.
_VERSIONS = (np.__version__, scipy.__version__, flint.__version__)


@functools.cache
def code_version() -> str:
    """A digest of the oracle's own files: results of other code are not used."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def reference_key(expression: str, inputs: Mapping[str, np.ndarray], format_: str, *choices: object) -> str:
    """The name of the file for an evaluation."""
    digest = hashlib.sha256(repr((code_version(), _VERSIONS, expression, format_, choices)).encode())
    for name, value in sorted(inputs.items()):
        array = np.ascontiguousarray(value)
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def load_references(folder: Path, key: str) -> list[dict[str, Any]] | None:
    """The fields of the references kept under ``key``, one mapping an output; None when there are none."""
    file = folder / f"{key}.npz"
    try:
        with np.load(file, allow_pickle=False) as kept:
            count = int(kept["count"])
            fields = [name.partition("_0")[0] for name in kept.files if name.endswith("_0")]
            found: list[dict[str, Any]] = [{name: kept[f"{name}_{n}"] for name in fields} for n in range(count)]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    for one in found:
        one["bound_ulp"] = float(one["bound_ulp"])
    return found


def store_references(folder: Path, key: str, references: Sequence[Mapping[str, Any]]) -> None:
    """Keep references under ``key``; several processes may do so at once."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {f"{name}_{n}": np.asarray(value) for n, one in enumerate(references) for name, value in one.items()}
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        np.savez(file, allow_pickle=False, count=np.asarray(len(references)), **arrays)
    os.replace(name, folder / f"{key}.npz")
