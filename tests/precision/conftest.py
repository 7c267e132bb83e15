"""The tests of this room compare with ml_dtypes; without it and numpy there is nothing to run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("ml_dtypes") and find_spec("numpy") else ["test_*.py"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """numpy's own casts of NaN and of numbers beyond the largest, with which the tests compare, warn; ours must not."""
    import numpy as np

    with np.errstate(all="ignore"):
        yield
