"""One thread, as sums over threads take time on a busy machine."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
