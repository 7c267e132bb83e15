"""Training of small torch models with one operator computed in another format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from opscanner.dynamic.experiments.data import generator_of
from opscanner.dynamic.experiments.models import Batch, ModelRow, model_named
from opscanner.dynamic.training.deviation import FLOAT64, ONE_ULP, Change, Weights
from opscanner.errors import UsageError

#: What users call, and the kernels that it reaches: forward and backward. Names are those of aten's schemas.
FAMILIES: dict[str, tuple[str, ...]] = {
    "conv2d": ("convolution", "convolution_backward"),
    # addmm and mm are of ``a @ b`` on matrices as well: where a model has both, both are changed.
    "linear": ("addmm", "mm", "linear", "linear_backward"),
    "matmul": ("bmm", "baddbmm"),
    "batch_norm": ("native_batch_norm", "native_batch_norm_backward"),
    "layer_norm": ("native_layer_norm", "native_layer_norm_backward"),
    # selu(x) is elu(x, 1.673..., 1.050...) in aten.
    "selu": ("selu", "elu", "elu_backward"),
    "softplus": ("softplus", "softplus_backward"),
    "gelu": ("gelu", "gelu_backward"),
    "silu": ("silu", "silu_backward"),
    "relu": ("relu", "threshold_backward"),
    "tanh": ("tanh", "tanh_backward"),
    "sigmoid": ("sigmoid", "sigmoid_backward"),
    "softmax": ("_softmax", "_softmax_backward_data"),
    "log_softmax": ("_log_softmax", "_log_softmax_backward_data"),
    "attention": (
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
    ),
    "lstm": ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"),
    "avg_pool2d": ("_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward"),
    "mean": ("mean",),
    "exp": ("exp",),
    "rsqrt": ("rsqrt",),
}  # fmt: skip
_FAMILY_OF = {kernel: family for family, kernels in FAMILIES.items() for kernel in kernels}

#: Arguments that kernels write to although their schemas do not say so (native_batch_norm).
_WRITTEN_UNSAID = frozenset({"running_mean", "running_var"})
#: What attention hands from forward to backward in float32, whatever the format of the rest.
_ALWAYS_WIDE = "logsumexp"


def _base_name(func: Any) -> str:
    return str(func._schema.name).partition("::")[2]


class ComputedIn(TorchDispatchMode):  # type: ignore[misc]
    """Inside, one operator rounds its floating-point inputs and results to a format, and is called in another.

    It sees the backward pass as well. What comes out has the format of the widest input, as without it.
    """

    def __init__(self, change: Change) -> None:
        super().__init__()
        self._kernels = FAMILIES[change.operator]
        self._format, self._called_in = getattr(torch, change.format), getattr(torch, change.computed_in)
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if _base_name(func) not in self._kernels:
            return func(*args, **(kwargs or {}))
        self.calls += 1
        widest: torch.dtype | None = None
        written: list[tuple[torch.Tensor, torch.Tensor]] = []
        named = [argument.name for argument in func._schema.arguments]

        def cast(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal widest
            if not tensor.is_floating_point():
                return tensor
            widest = tensor.dtype if widest is None else torch.promote_types(widest, tensor.dtype)
            return tensor.to(self._format).to(self._called_in)

        arguments = []
        for name, value in zip(named, args, strict=False):
            changed = value if name == _ALWAYS_WIDE else _pytree.tree_map_only(torch.Tensor, cast, value)
            if name in _WRITTEN_UNSAID and isinstance(value, torch.Tensor):
                written.append((value, changed))
            arguments.append(changed)
        options = {name: _pytree.tree_map_only(torch.Tensor, cast, value) for name, value in (kwargs or {}).items()}
        try:
            outputs = func(*arguments, **options)
        except RuntimeError as error:
            raise UsageError(f"{func} does not run in {self._called_in}: {error}", "try another format") from error
        for target, source in written:
            target.copy_(source)

        def back(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(self._format).to(widest) if tensor.is_floating_point() else tensor

        if not isinstance(outputs, tuple):
            return _pytree.tree_map_only(torch.Tensor, back, outputs)
        return tuple(
            output if result.name == _ALWAYS_WIDE else _pytree.tree_map_only(torch.Tensor, back, output)
            for output, result in zip(outputs, func._schema.returns, strict=True)
        )


class _Seen(TorchDispatchMode):  # type: ignore[misc]
    """Notes which families are called."""

    def __init__(self) -> None:
        super().__init__()
        self.families: dict[str, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        family = _FAMILY_OF.get(_base_name(func))
        if family is not None:
            self.families[family] = None
        return func(*args, **(kwargs or {}))


@contextmanager
def _own_random_state(seed: int, step: int) -> Iterator[None]:
    """Random numbers of a model's own, the same for every variant of a step; torch's state is put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_of(seed, 4, step).initial_seed())
        yield


class TorchLearner:
    """Stochastic gradient descent with momentum 0.9. The optimizer is never changed."""

    def __init__(self, row: ModelRow, seed: int, change: Change | None, learning_rate: float, scale: float) -> None:
        self._experiment = row.build(seed, scale=scale)
        self._seed, self._change = seed, change
        self._dtype = torch.float64 if change is not None and change.operator == FLOAT64 else torch.float32
        model = self._experiment.model.to(self._dtype)
        if change is not None and change.operator == ONE_ULP:
            move_one_weight(model, seed)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)

    def _batch(self, step: int) -> Batch:
        parts = self._experiment.batch(step)
        return tuple(part.to(self._dtype) if part.is_floating_point() else part for part in parts)

    def step(self, index: int) -> float:
        batch = self._batch(index)
        self._optimizer.zero_grad()
        changed = self._change is not None and not self._change.is_baseline
        with (
            _own_random_state(self._seed, index),
            ComputedIn(self._change) if changed and self._change is not None else nullcontext(),
        ):
            loss = self._experiment.loss(self._experiment.model, batch)
            loss.backward()
        self._optimizer.step()
        return float(loss.detach())

    def weights(self) -> Weights:
        parts = self._experiment.model.named_parameters()
        return {name: np.array(part.detach().numpy(), dtype=np.float64) for name, part in parts}

    def score(self) -> float | None:
        """In training mode, so that batch norm's running statistics (which few steps do not settle) play no part."""
        experiment = self._experiment
        if experiment.score is None:
            return None
        with torch.no_grad(), _own_random_state(self._seed, -1):
            scores = [experiment.score(experiment.model, self._batch(-step)) for step in range(1, 5)]
        return sum(scores) / len(scores)


def move_one_weight(model: nn.Module, seed: int) -> tuple[str, int]:
    """Moves one weight that is not 0, any with the same chance, up by one ULP; says which (name, place).

    A weight of 0 would move by a subnormal, which no sum ever sees.
    """
    with torch.no_grad():
        parts = dict(model.named_parameters())
        free = [(name, place) for name, part in parts.items() for place in part.flatten().nonzero().flatten().tolist()]
        chosen = int(torch.randint(len(free), (1,), generator=generator_of(seed, 5)))
        name, place = free[chosen]
        flat = parts[name].view(-1)
        flat[place] = torch.nextafter(flat[place], torch.full((), torch.inf, dtype=flat.dtype))
    return name, place


class TorchTrainer:
    """Trainings of one small model.."""

    framework = "pytorch"

    def __init__(self, model: str, *, scale: float = 1.0, learning_rate: float | None = None) -> None:
        self._row = model_named(model)
        self._scale = scale
        self._learning_rate = self._row.learning_rate if learning_rate is None else learning_rate
        self.versions = f"torch {torch.__version__}"
        # Told apart in saved courses, too.
        self.model = self._row.name + (f" x{scale:g}" if scale != 1 else "")
        if learning_rate is not None:
            self.model += f" at {learning_rate:g}"

    def operators(self) -> Sequence[str]:
        experiment = self._row.build(0, scale=self._scale)
        with _Seen() as seen:
            experiment.loss(experiment.model, experiment.batch(0)).backward()
        return tuple(seen.families)

    def learner(self, seed: int, change: Change | None) -> TorchLearner:
        return TorchLearner(self._row, seed, change, self._learning_rate, self._scale)
