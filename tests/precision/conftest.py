"""The tests of this room compare with ml_dtypes; without it and numpy there is nothing to run."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ml_dtypes") and find_spec("numpy") else ["test_*.py"]
