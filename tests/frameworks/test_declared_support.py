"""What the frameworks declare to support, and the script that holds the catalog against it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opscanner.frameworks.runners import is_installed

ROOT = Path(__file__).resolve().parents[2]
needs_tensorflow = pytest.mark.skipif(
    not is_installed("tensorflow"), reason="TENSORFLOW IS NOT INSTALLED: NOTHING OF ITS REGISTRY WAS READ"
)
needs_both = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "expecttest", "tensorflow"))),
    reason="NOT ALL OF TORCH, EXPECTTEST AND TENSORFLOW ARE INSTALLED: NOTHING WAS COMPARED",
)


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "check_support.py"), *arguments]
    kept = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=kept)


@needs_tensorflow
def test_registered_kernels_tell_formats() -> None:
    from opscanner.frameworks.tensorflow.kernels import formats_of

    every = frozenset({"float16", "bfloat16", "float32", "float64"})
    # REGISTER_KERNEL_BUILDER in TensorFlow 2.21: relu_op.cc, sequence_ops.cc, real_op.cc, non_max_suppression_op.cc.
    assert formats_of("Selu", "cpu") == every
    assert formats_of("LinSpace", "cpu") == frozenset({"float32", "float64"})
    assert formats_of("Real", "cpu") == frozenset({"float32", "float64"})
    assert formats_of("NonMaxSuppressionV3", "cpu") == frozenset({"float16", "float32"})
    assert formats_of("FFT", "cpu") is None
    assert formats_of("NoSuchOp", "cpu") is None


@needs_both
def test_what_runs_and_is_not_declared_is_reported() -> None:
    # abs of float8 runs, and OpInfo does not say so.
    done = check("--only", "abs", "--framework", "pytorch", "--formats", "float16,float8_e5m2")
    assert done.returncode == 1
    assert done.stdout.split() == ["abs", "pytorch", "float8_e5m2", "ran", "undeclared"]
    assert done.stderr.endswith("1 agree, 1 contradict, 1 new\n")


@needs_both
@pytest.mark.slow
def test_the_catalog_agrees_with_what_the_frameworks_declare_but_for_what_is_known() -> None:
    done = check()
    assert done.returncode == 0, done.stdout
    assert ", 0 new" in done.stderr
