"""What :mod:`opscanner.api` does with models that run: watch, replay, bisect, train, and the published experiments.

Nothing of it imports torch before it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscanner.errors import UsageError
from opscanner.installed import require

if TYPE_CHECKING:
    from opscanner.dynamic.experiments.figures import AttentionExperiment, OperatorExperiment
    from opscanner.dynamic.running.bisection import Bisection
    from opscanner.dynamic.running.replayed import Replayed
    from opscanner.dynamic.running.script import WatchedScript
    from opscanner.dynamic.training.deviation import Course

#: What watching a running model needs.
_WATCH_NEEDS = ("torch", "safetensors")


def operator_experiment(
    models: Sequence[str] = (),
    *,
    formats: Sequence[str] = ("float32", "bfloat16", "float16"),
    noises: Sequence[str] = ("fumi", "ulp"),
    steps: int = 3,
    seed: int = 0,
    scale: float = 1.0,
    progress: Callable[[str], None] = lambda text: None,
) -> OperatorExperiment:
    """Which operators lose most in small models that train: the first published experiment of FuMi.

    Parameters
    ----------
    models, formats, noises, steps
        As of :func:`opscanner.dynamic.experiments.operators.measure_operators`.
    scale : float
        Multiplies the models' widths.

    Raises
    ------
    UsageError
        For a model, format or noise that there is not, or when torch is not installed.
    """
    require("the experiment", ("numpy", "torch"), "dynamic,torch")
    from opscanner.dynamic.experiments.operators import measure_operators

    return measure_operators(
        models, formats=formats, noises=noises, steps=steps, seed=seed, scale=scale, progress=progress
    )


def attention_experiment(
    *,
    formats: Sequence[str] = ("float32", "float16", "bfloat16"),
    lengths: Sequence[int] = (512,),
    scales: Sequence[float] = (1.0, 4.0),
    steps: int = 4,
    fuzz: int = 4,
    noise: str = "ulp",
    seed: int = 0,
    implementations: Mapping[str, Callable[..., Any]] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> AttentionExperiment:
    """Implementations of attention against each other in a running model: the second published experiment of FuMi.

    Parameters
    ----------
    formats, lengths, scales, steps, fuzz, noise
        As of :func:`opscanner.dynamic.experiments.attention.measure_attention`.
    implementations : mapping, optional
        Name -> causal attention of query, key and value, (batch, heads, length, size); by default torch's backends
        for CPUs and one written by hand.

    Raises
    ------
    UsageError
        For a format or noise that there is not, fewer than two implementations, or when torch is not installed.
    """
    require("the experiment", ("numpy", "torch"), "dynamic,torch")
    from opscanner.dynamic.experiments.attention import measure_attention

    return measure_attention(
        formats=formats,
        lengths=lengths,
        scales=scales,
        steps=steps,
        fuzz=fuzz,
        noise=noise,
        seed=seed,
        implementations=implementations,
        progress=progress,
    )


def watch_script(
    script: str, arguments: Sequence[str] = (), *, is_module: bool = False, **options: Any
) -> WatchedScript:
    """Runs a script, or with ``is_module`` a module, and checks every operator that its torch models call.

    Parameters
    ----------
    **options
        As of :func:`opscanner.watch`.

    Raises
    ------
    UsageError
        When there is no such script, torch is not installed, or an option means nothing.
    """
    require("watching a script", _WATCH_NEEDS, "dynamic,torch")
    from opscanner.dynamic.running import script as running_script

    return running_script.watch_script(script, arguments, is_module=is_module, **options)


def replay(file: str | Path, *, device: str = "cpu", seeds: int = 8, trials: int = 250) -> Replayed:
    """Calls an operator again on inputs that a watch saved, and holds its result against others and the exact one.

    Parameters
    ----------
    file : path
        As ``opscanner.watch(..., save=FOLDER)`` wrote it: data, no code.
    seeds : int
        Perturbations of the inputs.
    trials : int
        Calls that making the inputs small may take; 0 leaves them as they are.

    Raises
    ------
    UsageError
        When torch is not installed, or there is no such device.
    OpscannerError
        When the file cannot be read, is of an operator that this torch has not, or memory does not suffice.
    """
    require("replaying a call", _WATCH_NEEDS, "dynamic,torch")
    from opscanner.dynamic.running import replay as replaying

    return replaying.replay(file, device=device, seeds=seeds, trials=trials)


def replay_script(found: Replayed) -> str:
    """A stand-alone script of a replay's smallest inputs; it ends with 1 where the operator is wrong.

    Raises
    ------
    OpscannerError
        When there are no smaller inputs, or no script can show them.
    """
    from opscanner.dynamic.running import call_script

    return call_script.script_of(found)


def write_smallest(found: Replayed, file: str | Path) -> None:
    """Writes a replay's smallest inputs to a file that can be replayed.

    Raises
    ------
    OpscannerError
        When there are none.
    """
    from opscanner.dynamic.running import replay as replaying

    replaying.write_smallest(found, file)


def bisect_precision(
    model: Any,
    inputs: Any = None,
    *,
    tolerance: float | None = None,
    metric: str = "ulp",
    to: str | None = None,
    depth: int | None = None,
    max_runs: int = 500,
    progress: Callable[[str], None] = lambda text: None,
) -> Bisection:
    """Which layers of a torch model must be upcast for its output to come within a tolerance of its float64 run.

    Parameters
    ----------
    model : torch.nn.Module or str
        Or ``"FILE.py:function"``, ``"package.module:function"``: the code in there is executed, and the function,
        called without arguments, returns (model, inputs).
    inputs, tolerance, metric, to, depth, max_runs
        As of :func:`opscanner.dynamic.running.bisection.bisect_precision`.

    Raises
    ------
    UsageError
        When torch is not installed, there is no such function, or an option means nothing.
    OpscannerError
        When code of the model's file raises.
    """
    require("bisecting a model", ("torch",), "torch")
    from opscanner.dynamic.running import bisection, user_model

    options: dict[str, Any] = {
        "tolerance": tolerance, "metric": metric, "to": to, "depth": depth, "max_runs": max_runs, "progress": progress,
    }  # fmt: skip
    if not isinstance(model, str):
        return bisection.bisect_precision(model, inputs, **options)
    with user_model.user_model(model) as (made, given):
        return user_model.called(f"running {model}", lambda: bisection.bisect_precision(made, given, **options))


def training_deviation(
    *,
    framework: str = "pytorch",
    model: str = "cnn",
    operators: Sequence[str] = (),
    to_format: str = "bfloat16",
    upcast: bool = False,
    steps: int = 20,
    seeds: Sequence[int] = (0, 1, 2),
    scale: float = 1.0,
    learning_rate: float | None = None,
    save: str | Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[list[Course]]:
    """How far the weights of a small model drift when one operator computes otherwise: a list of courses a seed.

    Parameters
    ----------
    model : str
        A row of :data:`opscanner.dynamic.experiments.models.MODELS`; in TensorFlow ``cnn`` or ``mnist-mlp``.
    operators : sequence of str
        Those to change, one a training; by default all that the model calls and that have a name here.
    to_format : str
        What the operator's inputs and results are rounded to, and its kernel computes in, forward and backward.
    upcast : bool
        One training more for each operator: rounded in the same way, computed one format wider.
    scale : float
        Multiplies the model's widths.
    save : str or path, optional
        Finished seeds are added to this file, and those that it holds are not trained again.

    Raises
    ------
    UsageError
        For a model, operator or format that there is not, or where something is not installed.
    """
    # The data is torch's, whoever trains.
    if framework == "tensorflow":
        require("training in TensorFlow", ("numpy", "torch", "tensorflow"), "dynamic,torch,tensorflow")
    else:
        require("training", ("numpy", "torch"), "dynamic,torch")
    from opscanner.dynamic.training import deviation

    trainer: deviation.Trainer
    if framework == "pytorch":
        from opscanner.dynamic.training.pytorch import TorchTrainer

        trainer = TorchTrainer(model, scale=scale, learning_rate=learning_rate)
    elif framework == "tensorflow":
        from opscanner.dynamic.training.tensorflow import TensorFlowTrainer

        trainer = TensorFlowTrainer(model, scale=scale, learning_rate=learning_rate)
    else:
        raise UsageError(f"no framework is named {framework!r}", "pytorch or tensorflow")
    return deviation.deviations(
        trainer,
        operators=operators,
        format_=to_format,
        upcast=upcast,
        steps=steps,
        seeds=seeds,
        save=None if save is None else Path(save),
        progress=progress,
    )


def check_drawing() -> None:
    """Refuses, where what draws plots is not installed.

    Raises
    ------
    UsageError
        With what installs it.
    """
    require("a plot", ("matplotlib",), "notebooks")
