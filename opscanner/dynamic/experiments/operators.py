"""Which operators lose most in models of the study's kinds: each call is run again on perturbed inputs.

The first published experiment of FuMi (Zhang et al., doi 10.1145/3734866), by its metric. Parameters are left as they
are, since its layers perturb what goes into a layer. Other than there the backward pass is checked too, and operators
that have no layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from opscanner.dynamic.experiments.figures import ONE_PERCENT, OperatorExperiment, OperatorFigures, SkippedRun
from opscanner.dynamic.experiments.models import MODELS, Experiment, model_named
from opscanner.dynamic.running.compare import compare
from opscanner.dynamic.running.examine import Examiner, Sampling, Tolerance
from opscanner.dynamic.running.noise import KINDS, NoiseSource
from opscanner.dynamic.running.places import ModulePlaces
from opscanner.dynamic.running.second import Perturbed
from opscanner.dynamic.running.watch import OperatorWatch
from opscanner.errors import UsageError
from opscanner.watched import Level, Mode, Site, WatchReport

FORMATS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

#: ATen's name -> what a user calls it.
_NAMES = {
    "convolution": "conv2d", "convolution_backward": "conv2d", "native_batch_norm": "batch_norm",
    "native_batch_norm_backward": "batch_norm", "native_layer_norm": "layer_norm",
    "native_layer_norm_backward": "layer_norm", "mkldnn_rnn_layer": "lstm", "mkldnn_rnn_layer_backward": "lstm",
}  # fmt: skip
_PRODUCTS = ("mm", "addmm", "linear")
#: Modules whose products are those of linear layers.
_LINEAR = ("Linear", "NonDynamicallyQuantizableLinear", "MultiheadAttention", "LSTM")


def measure_operators(
    models: Sequence[str] = (),
    *,
    formats: Sequence[str] = ("float32", "bfloat16", "float16"),
    noises: Sequence[str] = KINDS,
    steps: int = 3,
    seed: int = 0,
    scale: float = 1.0,
    progress: Callable[[str], None] = lambda text: None,
) -> OperatorExperiment:
    """Trains models for some steps, and runs every operator a second time on perturbed inputs.

    Parameters
    ----------
    models : sequence of str
        Rows of :data:`opscanner.dynamic.experiments.models.MODELS`; by default all.
    formats : sequence of str
        Of weights, inputs and optimizer: ``float32``, ``bfloat16``, ``float16``. A model that does not run in one is
        skipped, with the reason.
    noises : sequence of str
        ``fumi``, its constants; ``ulp``, one ULP up or down.
    steps : int
        Training steps of stochastic gradient descent with the model's own learning rate, all of them checked.

    Raises
    ------
    UsageError
        For a model, format or noise that there is not.
    """
    rows = [model_named(name) for name in models or MODELS]
    for given, known, what in ((formats, FORMATS, "format"), (noises, KINDS, "noise")):
        for name in given:
            if name not in known:
                raise UsageError(f"no {what} of this experiment is named {name!r}", f"one of {', '.join(known)}")
    figures: list[OperatorFigures] = []
    skipped: list[SkippedRun] = []
    for row in rows:
        for format_ in formats:
            progress(f"{row.name} in {format_}")
            for noise in noises:
                experiment = row.build(seed, scale=scale)
                try:
                    calls = _calls_of(experiment, FORMATS[format_], noise, steps, seed, row.learning_rate)
                except (RuntimeError, NotImplementedError) as error:
                    reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                    skipped.append(SkippedRun(row.name, format_, reason))
                    break
                figures += calls.figures(row.name, format_, noise)
    settings = {
        "models": [row.name for row in rows], "formats": list(formats), "noises": list(noises), "steps": steps,
        "seed": seed, "scale": scale, "torch": torch.__version__,
    }  # fmt: skip  # fmt: skip
    return OperatorExperiment(settings, tuple(figures), tuple(skipped))


def operator_name(operator: str, module_type: str) -> str:
    """What a user calls an ATen operator.

    >>> operator_name("aten.addmm.default", "Linear"), operator_name("aten.mm.default", "GCN")
    ('linear', 'mm')
    """
    base = operator.split(".")[1] if operator.count(".") else operator
    if base in _PRODUCTS and module_type in _LINEAR:
        return "linear"
    if "scaled_dot_product" in base:
        return "attention"
    return _NAMES.get(base, base)


def _calls_of(
    experiment: Experiment, dtype: torch.dtype, noise: str, steps: int, seed: int, learning_rate: float
) -> _Calls:
    """Trains a model in a format under a watch of its operators."""
    model = experiment.model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    report = WatchReport(Mode.PERTURB, Level.OPERATOR, {}, notes=[])
    source = _InputNoise(model.parameters(), seed, noise)
    places = ModulePlaces((model,))
    calls = _Calls(report, model)
    watching = OperatorWatch(
        report, places, Perturbed(source), examiner=calls, noise=source, sampling=Sampling(every=1, first=0)
    )
    places.start()
    try:
        with watching, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for step in range(steps):
                batch = tuple(one.to(dtype) if one.is_floating_point() else one for one in experiment.batch(step))
                optimizer.zero_grad()
                experiment.loss(model, batch).backward()
                optimizer.step()
    finally:
        places.stop()
    return calls


class _InputNoise(NoiseSource):
    """Noise that leaves a model's parameters, and views of them, as they are."""

    def __init__(self, parameters: Iterable[torch.Tensor], seed: int, kind: str) -> None:
        super().__init__(seed, kind)
        self._kept = frozenset(one.untyped_storage().data_ptr() for one in parameters)

    def perturbed(self, tensor: Any) -> Any:
        return tensor.detach().clone() if self._is_kept(tensor) else super().perturbed(tensor)

    def perturbed_quickly(self, tensor: Any) -> Any:
        # The one pass draws no fewer signs; one way for all calls keeps infinities, and figures that repeat.
        return self.perturbed(tensor)

    def _is_kept(self, tensor: torch.Tensor) -> bool:
        return tensor.layout is torch.strided and tensor.untyped_storage().data_ptr() in self._kept


class _Calls(Examiner):
    """Compares every call in full, and counts those past each limit."""

    def __init__(self, report: WatchReport, model: torch.nn.Module) -> None:
        super().__init__(report, Tolerance(), is_reference=False, step=lambda: 0, on_alert=lambda alert: None)
        self._seen = report
        self._types = {path: type(module).__name__ for path, module in model.named_modules()}
        self._calls_past: dict[str, set[tuple[int, int]]] = {"tolerance": set(), "percent": set(), "non_finite": set()}

    def examine(self, site: Site, place: int, one: torch.Tensor, other: torch.Tensor, **asked: Any) -> None:
        """Keeps the worst of a site; a call with several outputs is past a limit once."""
        found = compare(one, other)
        call = (id(site), site.count)
        if found.max_relative_error > site.max_relative_error:
            site.max_relative_error = found.max_relative_error
        site.max_scaled_ulp = max(site.max_scaled_ulp, found.max_scaled_ulp)
        if found.nan_mismatches + found.infinity_mismatches:
            self._calls_past["non_finite"].add(call)
        if found.over - found.nan_mismatches - found.infinity_mismatches > 0:
            self._calls_past["tolerance"].add(call)
        if found.max_relative_error > ONE_PERCENT:
            self._calls_past["percent"].add(call)

    def figures(self, model: str, format_: str, noise: str) -> list[OperatorFigures]:
        """One row an operator and pass, in the order in which they were first called."""
        groups: dict[tuple[str, str], list[Site]] = {}
        for site in self._seen.sites:
            if site.checked:
                name = operator_name(site.operator, site.module_type or self._types.get(site.module, ""))
                groups.setdefault((name, site.direction.value), []).append(site)
        rows = []
        for (name, direction), sites in groups.items():
            worst = max(sites, key=lambda site: site.max_relative_error)
            rows.append(
                OperatorFigures(
                    model,
                    format_,
                    noise,
                    name,
                    direction,
                    calls=sum(site.checked for site in sites),
                    max_relative_error=worst.max_relative_error,
                    max_scaled_ulp=max(site.max_scaled_ulp for site in sites),
                    over_tolerance=self._count("tolerance", sites),
                    over_percent=self._count("percent", sites),
                    non_finite=self._count("non_finite", sites),
                    worst_at=worst.module,
                )
            )
        return rows

    def _count(self, limit: str, sites: Sequence[Site]) -> int:
        wanted = {id(site) for site in sites}
        return sum(1 for site, _call in self._calls_past[limit] if site in wanted)
