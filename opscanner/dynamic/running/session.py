"""``with watch(model) as report:`` chooses what a watch is made of, begins it and ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import torch

from opscanner.dynamic.running.examine import Examiner, Sampling, Tolerance
from opscanner.dynamic.running.noise import KINDS, NoiseSource
from opscanner.dynamic.running.permuted import Permuted
from opscanner.dynamic.running.places import ModulePlaces
from opscanner.dynamic.running.saving import MOST_BYTES, CallSaver
from opscanner.dynamic.running.second import Perturbed, Second, Substituted, Upcast
from opscanner.dynamic.running.watch import OperatorWatch
from opscanner.errors import UsageError
from opscanner.watched import Alert, Level, Mode, WatchReport

#: Level of a mode that is asked for without one.
_LEVELS = {
    Mode.PERTURB: Level.OPERATOR,
    Mode.UPCAST: Level.MODULE,
    Mode.SUBSTITUTE: Level.OPERATOR,
    Mode.PERMUTE: Level.OPERATOR,
}


@contextlib.contextmanager
def watch(
    *models: torch.nn.Module,
    mode: str | Mode = Mode.PERTURB,
    level: str | Level | None = None,
    every: int = 1,
    first: int = 0,
    tolerance_ulp: float | None = None,
    tolerance: float | None = None,
    noise: str = "ulp",
    amount: float = 1.0,
    parameters: bool = False,
    seed: int = 0,
    substitute: Mapping[Any, Callable[..., Any]] | None = None,
    save: str | Path | None = None,
    save_limit: int = 8,
    save_bytes: int = MOST_BYTES,
    on_alert: Callable[[Alert], None] = lambda alert: None,
    optimizers: bool = False,
) -> Iterator[WatchReport]:
    """Checks every operator that runs inside the block; the models compute what they would without it, bit for bit.

    Parameters
    ----------
    *models : torch.nn.Module
        They name modules in the report. Operators outside of them are checked too.
    mode : str or Mode
        ``perturb``, ``upcast``, ``substitute`` or ``permute`` (:class:`~opscanner.watched.Mode`).
    level : str or Level, optional
        ``operator`` or ``module``; ``module`` for upcast, ``operator`` otherwise.
    every, first : int
        Check the first ``first`` calls of each site, then every ``every``-th; 0 for none.
    tolerance_ulp : float, optional
        Tell of differences past so many ULP of a tensor's largest element. Default: 2**(p/2), p the format's
        precision: half of its digits. In mode upcast what one ULP of the inputs does decides unless it is given.
    tolerance : float, optional
        Tell of relative errors |a - b| / |a + b| past it, too.
    noise, amount, seed
        Kind of perturbation (``ulp``, or ``fumi`` for the constants of FuMi), how many ULP, and its seed.
    parameters : bool
        Perturb the modules' parameters, too, where they are operators' inputs.
    substitute : mapping, optional
        For mode substitute: operators or their names -> other implementations with the same arguments.
    save : path, optional
        Folder for the inputs of calls that were told of; at most ``save_limit`` files with tensors of ``save_bytes``.
    on_alert : callable, optional
        Called with each alert when it is found; what it raises ends the run.
    optimizers : bool
        Check what optimizers compute, too.

    Raises
    ------
    UsageError
        For modes, levels and options that there are not, or that do not go together.
    """
    mode, level = _chosen(mode, level)
    if every < 0 or first < 0 or (every == 0 and first == 0):
        raise UsageError(f"every={every}, first={first} checks no call", "every=1 checks all, every=20 one in 20")
    if save and level is Level.MODULE:
        raise UsageError(
            "save keeps the inputs of operators, and level module runs modules", "level='operator' (--level operator)"
        )
    for name, value in (("tolerance_ulp", tolerance_ulp), ("tolerance", tolerance), ("save_limit", save_limit)):
        if value is not None and not value >= 0:
            raise UsageError(f"{name}={value} is below 0", "a number of 0 and more")
    if noise not in KINDS:
        raise UsageError(f"there is no noise {noise!r}", f"one of {', '.join(KINDS)}")
    settings = {
        "mode": mode.value, "level": level.value, "every": every, "first": first, "noise": noise,
        "amount": amount, "parameters": parameters, "seed": seed, "tolerance_ulp": tolerance_ulp,
        "tolerance": tolerance, "torch": torch.__version__,
    }  # fmt: skip
    report = WatchReport(mode, level, settings, notes=notes_of(models))
    source = NoiseSource(seed, noise, amount)
    places = ModulePlaces(models)
    unmoved = frozenset() if parameters else places.parameters
    saver = (
        CallSaver(Path(save).absolute(), limit=save_limit, most_bytes=save_bytes, settings=settings, unmoved=unmoved)
        if save
        else None
    )
    sampling = Sampling(every, first)
    examiner = Examiner(
        report,
        Tolerance(tolerance_ulp, tolerance),
        is_reference=mode is Mode.UPCAST,
        step=lambda: places.steps,
        on_alert=on_alert,
    )
    if level is Level.MODULE:
        from opscanner.dynamic.running.modulewise import ModuleWatch

        watching: Any = ModuleWatch(
            report, places, examiner=examiner, noise=source, sampling=sampling, wide=mode is Mode.UPCAST
        )
    else:
        watching = OperatorWatch(
            report,
            places,
            _second(mode, source, substitute, seed, unmoved),
            examiner=examiner,
            noise=source,
            sampling=sampling,
            saver=saver,
            optimizers=optimizers,
        )
    places.start()
    try:
        with watching:
            yield report
    finally:
        places.stop()
        report.steps = places.steps


def _chosen(mode: str | Mode, level: str | Level | None) -> tuple[Mode, Level]:
    try:
        chosen = Mode(mode)
    except ValueError:
        raise UsageError(f"there is no mode {mode!r}", f"one of {', '.join(one.value for one in Mode)}") from None
    try:
        at = _LEVELS[chosen] if level is None else Level(level)
    except ValueError:
        raise UsageError(f"there is no level {level!r}", f"one of {', '.join(one.value for one in Level)}") from None
    if at is Level.MODULE and chosen not in (Mode.UPCAST, Mode.PERTURB):
        raise UsageError(f"mode {chosen.value} works on operators", "leave level out")
    return chosen, at


def _second(
    mode: Mode,
    source: NoiseSource,
    candidates: Mapping[Any, Callable[..., Any]] | None,
    seed: int,
    kept: AbstractSet[int],
) -> Second:
    if (mode is Mode.SUBSTITUTE) != bool(candidates):
        raise UsageError(
            "mode substitute and candidates go together", "give both: mode='substitute', substitute={'aten.softmax': f}"
        )
    match mode:
        case Mode.PERTURB:
            return Perturbed(source, kept)
        case Mode.UPCAST:
            return Upcast()
        case Mode.PERMUTE:
            return Permuted(seed)
        case Mode.SUBSTITUTE:
            return Substituted(candidates or {})


def notes_of(models: Iterable[torch.nn.Module]) -> list[str]:
    """What a report must say of models that run otherwise when they are watched."""
    notes = []
    for model in models:
        if any(type(module).__name__ == "OptimizedModule" for module in model.modules()):
            notes.append(
                f"{type(model).__name__} is compiled: while it is watched torch.compile runs its operators one by one, "
                "so what is checked are PyTorch's own kernels, not those that the compiler makes"
            )
    return notes
