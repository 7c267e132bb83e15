"""Implementations of attention against each other: in a running model, and on random tensors.

The second published experiment of FuMi (Zhang et al., doi 10.1145/3734866), which held what its layers find in a
running language model against unit testing with random tensors (Predoo). Both implementations get the same inputs
here, perturbed ones too: a difference is theirs and not that of the perturbation.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from opscanner.dynamic.experiments.data import generator_of
from opscanner.dynamic.experiments.figures import (
    AttentionExperiment,
    AttentionFigures,
    Errors,
    SkippedRun,
    largest_first,
)
from opscanner.dynamic.experiments.models import MODELS, Experiment
from opscanner.dynamic.experiments.networks import sdpa_attention, written_attention
from opscanner.dynamic.experiments.operators import FORMATS
from opscanner.dynamic.running.compare import compare
from opscanner.dynamic.running.noise import KINDS, NoiseSource
from opscanner.errors import UsageError

#: Causal attention of (batch, heads, length, size).
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
Inputs = tuple[Tensor, Tensor, Tensor]


def _by(backend: SDPBackend) -> Attention:
    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return sdpa_attention(query, key, value)

    return attention


#: Backends of ``scaled_dot_product_attention`` that a CPU has, and the formula written by hand.
IMPLEMENTATIONS: dict[str, Attention] = {
    "flash": _by(SDPBackend.FLASH_ATTENTION),
    "math": _by(SDPBackend.MATH),
    "written": written_attention,
}


def measure_attention(
    *,
    formats: Sequence[str] = ("float32", "float16", "bfloat16"),
    lengths: Sequence[int] = (512,),
    scales: Sequence[float] = (1.0, 4.0),
    steps: int = 4,
    fuzz: int = 4,
    noise: str = "ulp",
    seed: int = 0,
    implementations: Mapping[str, Attention] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> AttentionExperiment:
    """Trains the small Llama, and holds implementations of attention against each other on what its attention gets.

    Before each training step (in float32, the same for all) a copy of the model in each format reads the batch, and
    every attention in it is computed by every implementation, on its inputs and on perturbed ones.

    Parameters
    ----------
    lengths : sequence of int
        Words in a sequence, one sequence a batch.
    scales : sequence of float
        Factors to the weights of queries and keys in the copies: trained models have larger ones than small models.
    fuzz : int
        Evaluations of each call: one on its inputs as they are, the others on perturbed ones.
    noise : str
        ``ulp`` or ``fumi``.
    implementations : mapping, optional
        Name -> function of query, key and value; by default :data:`IMPLEMENTATIONS`.

    Raises
    ------
    UsageError
        For a format or noise that there is not, and for fewer than two implementations.
    """
    candidates = dict(IMPLEMENTATIONS if implementations is None else implementations)
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"no format of this experiment is named {name!r}", f"one of {', '.join(FORMATS)}")
    if noise not in KINDS:
        raise UsageError(f"there is no noise {noise!r}", f"one of {', '.join(KINDS)}")
    if len(candidates) < 2:
        raise UsageError("one implementation alone has none to be held against", "give two or more")
    figures: list[AttentionFigures] = []
    skipped: list[SkippedRun] = []
    for length in lengths:
        experiment = MODELS["llama"].build(seed, length=length, batch_size=1)
        states = list(_states(experiment, steps, MODELS["llama"].learning_rate))
        for format_, scale in itertools.product(formats, scales):
            progress(f"{format_}, length {length}, queries and keys x {scale:g}")
            try:
                inputs = list(_inputs_in_model(experiment, states, FORMATS[format_], scale))
                tests = _Tests(candidates, format_, fuzz, noise, seed)
                figures += tests.figures(inputs, length, scale)
            except (RuntimeError, NotImplementedError) as error:
                reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                skipped.append(SkippedRun("llama", format_, f"length {length}, x {scale:g}: {reason}"))
    settings = {
        "implementations": list(candidates), "formats": list(formats), "lengths": list(lengths),
        "scales": list(scales), "steps": steps, "fuzz": fuzz, "noise": noise, "seed": seed, "torch": torch.__version__,
    }  # fmt: skip
    return AttentionExperiment(settings, largest_first(figures), tuple(skipped))


def _states(experiment: Experiment, steps: int, learning_rate: float) -> Iterator[dict[str, Tensor]]:
    """The weights before each training step."""
    model = experiment.model
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    for step in range(steps):
        yield {name: value.detach().clone() for name, value in model.state_dict().items()}
        optimizer.zero_grad()
        experiment.loss(model, experiment.batch(step)).backward()
        optimizer.step()


def _inputs_in_model(
    experiment: Experiment, states: Sequence[Mapping[str, Tensor]], dtype: torch.dtype, scale: float
) -> Iterator[Inputs]:
    """What every attention of the model gets in a format."""
    model = copy.deepcopy(experiment.model).to(dtype)
    for step, state in enumerate(states):
        model.load_state_dict(state)
        with torch.no_grad(), _AttentionCalls() as seen:
            for layer in model.layers:
                layer.query.weight.mul_(scale)
                layer.key.weight.mul_(scale)
            model(experiment.batch(step)[0])
        yield from seen.inputs


class _AttentionCalls(TorchFunctionMode):  # type: ignore[misc]  # torch is not read
    """Keeps the inputs of every ``scaled_dot_product_attention``; the model computes what it would without."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Inputs] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            query, key, value = args
            self.inputs.append((query.clone(), key.clone(), value.clone()))
        return func(*args, **(kwargs or {}))


class _Tests:
    """Runs all implementations on the same inputs, and keeps the largest error of each pair."""

    def __init__(self, candidates: Mapping[str, Attention], format_: str, fuzz: int, noise: str, seed: int) -> None:
        self._candidates, self._format, self._fuzz, self._seed = candidates, format_, fuzz, seed
        self._noise = NoiseSource(seed, noise)

    def figures(self, calls: Sequence[Inputs], length: int, scale: float) -> list[AttentionFigures]:
        """Every pair, and each implementation against float64: in the model, and on as many random inputs."""
        in_model = self._worst(self._fuzzed(calls))
        random = self._worst(self._random(calls))
        return [
            AttentionFigures(
                self._format, length, scale, first, second, len(calls) * self._fuzz, in_model[first, second],
                random[first, second],
            )
            for first, second in in_model
        ]  # fmt: skip

    def _fuzzed(self, calls: Sequence[Inputs]) -> Iterator[Inputs]:
        for query, key, value in calls:
            yield query, key, value
            for _ in range(self._fuzz - 1):
                yield self._noise.perturbed(query), self._noise.perturbed(key), self._noise.perturbed(value)

    def _random(self, calls: Sequence[Inputs]) -> Iterator[Inputs]:
        """Normally distributed tensors of the same shapes and format."""
        for place, inputs in enumerate(call for call in calls for _ in range(self._fuzz)):
            generator = generator_of(self._seed, 4, place)
            query, key, value = (torch.randn(one.shape, generator=generator).to(one.dtype) for one in inputs)
            yield query, key, value

    def _worst(self, inputs: Iterator[Inputs]) -> dict[tuple[str, str], Errors]:
        names = [*self._candidates, "float64"]
        found = {pair: Errors() for pair in itertools.combinations(names, 2)}
        with torch.no_grad():
            for query, key, value in inputs:
                results = {name: attention(query, key, value) for name, attention in self._candidates.items()}
                results["float64"] = written_attention(query.double(), key.double(), value.double())
                for first, second in found:
                    errors = errors_between(results[first], results[second], self._format)
                    found[first, second] = found[first, second].worst(errors)
        return found


def errors_between(one: Tensor, other: Tensor, format_: str) -> Errors:
    """The three metrics of two results of a format, the second being the reference.

    >>> errors_between(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 4.0]), "float32")
    Errors(relative=0.5, scaled=0.5, absolute=2.0, non_finite=0)
    """
    found = compare(one, other, format_)
    first, second = one.double(), other.double()
    finite = torch.isfinite(first) & torch.isfinite(second)
    absolute = float(torch.where(finite, (first - second).abs(), 0.0).max())
    largest = float(torch.where(finite, second.abs(), 0.0).max())
    return Errors(
        relative=found.max_relative_error,
        scaled=absolute / largest if largest else 0.0,
        absolute=absolute,
        non_finite=found.nan_mismatches + found.infinity_mismatches,
    )
