"""Fuzz and Check layers as Keras 3 layers, running on TensorFlow: see :mod:`opscanner.dynamic.layers.pytorch`.

Comparisons are made by numpy on the host, in eager code and from within graphs, which XLA cannot compile: the layers
say so to Keras (``supports_jit``).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf

from opscanner.dynamic.layers.records import LayerRecord, NotDeterministic, OnAlert, tell
from opscanner.errors import UsageError
from opscanner.precision.formats import FORMATS
from opscanner.precision.relative import FUMI_NOISE, absolute_tolerance, difference_of

MODES = ("perturb", "upcast", "substitute")
WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "float64": "float64"}
#: Encodings as integers: their type, the mask of a magnitude, and the largest finite number.
_ENCODINGS = {
    "float16": (tf.int16, 0x7FFF, 0x7BFF),
    "bfloat16": (tf.int16, 0x7FFF, 0x7F7F),
    "float32": (tf.int32, 0x7FFFFFFF, 0x7F7FFFFF),
    "float64": (tf.int64, 0x7FFFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF),
}


def perturbed(tensor: Any, seed: Any, noise: str = "ulp", amount: float = 1.0) -> Any:
    """A tensor with every finite element moved by so many steps of its format, up or down by the seed.

    As :meth:`opscanner.dynamic.running.noise.NoiseSource.perturbed`: zeros, infinities and NaN stay, and so do formats
    other than the four; an element that would leave the range, or pass zero, moves the other way, and with one step
    the largest number stays, the smallest may become zero.
    """
    name = tensor.dtype.name
    if name not in _ENCODINGS:
        return tensor
    tensor = tf.stop_gradient(tensor)
    if noise == "fumi":
        constant = FUMI_NOISE[name] * amount
        return tf.where(tensor > tf.cast(constant**0.5, tensor.dtype), tensor + tf.cast(constant, tensor.dtype), tensor)
    integer, mask, largest = _ENCODINGS[name]
    bits = tf.bitcast(tensor, integer)
    magnitude = tf.bitwise.bitwise_and(bits, tf.constant(mask, integer))
    steps = min(int(amount), largest // 2)
    up = tf.random.stateless_uniform(tf.shape(tensor), seed, 0, 2, tf.int32) > 0
    if steps == 1:
        moves = (magnitude > 0) & (magnitude < largest)
    else:
        moves = (magnitude > 0) & (magnitude <= largest)
        up = (up | (magnitude <= steps)) & (magnitude <= largest - steps)
    shift = tf.where(moves, tf.where(up, tf.constant(steps, integer), tf.constant(-steps, integer)), 0)
    return tf.bitcast(bits + shift, tensor.dtype)


@keras.saving.register_keras_serializable(package="opscanner")
class FuzzLayer(keras.layers.Layer):  # type: ignore[misc]
    """A pair of inputs for a layer under test: the same, and perturbed.

    Parameters
    ----------
    noise : str
        ``"ulp"``, or ``"fumi"`` for its absolute constants.
    amount : float
        Steps; a factor to the constants.
    seed : int
        Of the signs, of which each call takes others.
    """

    def __init__(self, noise: str = "ulp", amount: float = 1.0, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if noise not in ("ulp", "fumi") or amount <= 0 or (noise == "ulp" and int(amount) != amount):
            raise UsageError(f"noise {noise!r} of {amount} means nothing", '"ulp" of 1, 2, 3 ... steps, or "fumi"')
        self.noise, self.amount, self.seed = noise, amount, seed
        self.supports_jit = False
        self._calls = tf.Variable(0, dtype=tf.int32, trainable=False)

    def call(self, inputs: Any) -> Any:
        """The inputs and their perturbed copies, in the same form."""
        seed = tf.stack([self.seed, self._calls.assign_add(1)])
        return inputs, self.moved(inputs, seed)

    def moved(self, inputs: Any, seed: Any) -> Any:
        """The perturbed copies; each object once, equal inputs stay equal."""
        done: dict[int, Any] = {}

        def move(one: Any) -> Any:
            if not tf.is_tensor(one):
                return one
            if id(one) not in done:
                done[id(one)] = perturbed(one, seed + tf.constant([len(done) * 7919, 0]), self.noise, self.amount)
            return done[id(one)]

        return tf.nest.map_structure(move, inputs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "noise": self.noise, "amount": self.amount, "seed": self.seed}


@keras.saving.register_keras_serializable(package="opscanner")
class CheckLayer(keras.layers.Layer):  # type: ignore[misc]
    """Compares two results, writes down the worst in ``records``, and gives the first on as it is.

    Parameters
    ----------
    tolerance : float, optional
        Largest relative error without an alert; by default FuMi's tolerance of the result's format.
    on_alert : str or function
        ``"warn"`` once for each output, ``"raise"`` (inside of a graph TensorFlow makes it an error of its own, with
        the same message), or a function, which is saved as ``"warn"``.
    """

    def __init__(self, tolerance: float | None = None, on_alert: OnAlert = "warn", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(on_alert, str) and on_alert not in ("warn", "raise"):
            raise UsageError(f"on_alert is {on_alert!r}", '"warn", "raise" or a function')
        self.tolerance, self.on_alert = tolerance, on_alert
        self.supports_jit = False
        self._state = _State(self.name)

    @property
    def records(self) -> dict[str, LayerRecord]:
        """By the place of the output in the result, which is empty for a lone tensor."""
        return self._state.records

    def call(self, first: Any, second: Any) -> Any:
        """``first``, after comparing all its floating-point tensors with those of ``second``."""
        self.check(first, second)
        return first

    def check(self, first: Any, second: Any, again: Any = None) -> None:
        """Compare now, or whenever the graph that is being made runs; ``again`` is ``first`` for equal inputs."""
        names = [name for name, one in named_tensors(first) if one.dtype.name in FORMATS]
        firsts, seconds, agains = (
            [tf.stop_gradient(one) for _, one in named_tensors(value) if one.dtype.name in FORMATS]
            for value in (first, second, first if again is None else again)
        )

        def compare(*arrays: np.ndarray) -> None:
            third = len(names)
            self._state.compare(names, arrays[:third], arrays[third : 2 * third], arrays[2 * third :], self)

        if len(firsts) != len(seconds):
            raise UsageError(f"{self.name}: the second result has another form than the first")
        _on_host(compare, [*firsts, *seconds, *agains])

    def get_config(self) -> dict[str, Any]:
        on_alert = self.on_alert if isinstance(self.on_alert, str) else "warn"
        return {**super().get_config(), "tolerance": self.tolerance, "on_alert": on_alert}


class _State:
    """Records, apart from what Keras tracks and saves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: dict[str, LayerRecord] = {}
        self.deterministic: bool | None = None
        self.lock = threading.Lock()

    def compare(self, names: Any, firsts: Any, seconds: Any, agains: Any, settings: CheckLayer) -> None:
        """Compare the arrays of one call, write down, alert."""
        told = []
        with self.lock:
            if self.deterministic is None:
                self.deterministic = all(map(_equal, firsts, agains))
                if not self.deterministic:
                    note = "it gives two results for equal inputs"
                    warnings.warn(NotDeterministic(f"{self.name} is not checked: {note}"), stacklevel=2)
            for name, first, second in zip(names, firsts, seconds, strict=True):
                record = self.records.setdefault(name, LayerRecord(self.name, name))
                record.count += 1
                record.shape = first.shape
                record.format = first.dtype.name
                if not self.deterministic:
                    record.note("it gives two results for equal inputs")
                    continue
                record.checked += 1
                tolerance = settings.tolerance
                tolerance = absolute_tolerance(record.format) if tolerance is None else tolerance
                if message := record.add(difference_of(first, second, record.format), tolerance):
                    told.append((message, record))
        for message, record in told:
            tell(message, record, settings.on_alert)

    def count(self, names: Any) -> None:
        """Count a call that was not checked."""
        with self.lock:
            for name in names:
                self.records.setdefault(name, LayerRecord(self.name, name)).count += 1


@keras.saving.register_keras_serializable(package="opscanner")
class FuzzCheck(keras.layers.Wrapper):  # type: ignore[misc]
    """A layer under test between a fuzz layer and a check layer: in its place, it computes the same.

    Parameters
    ----------
    layer : keras.layers.Layer
        Deterministic but for Keras' own random numbers, such as dropout's: all runs draw the same. One that is not is
        said so at the first call, and not checked. A function goes into a ``keras.layers.Lambda``.
    mode : str
        ``"perturb"``, ``"upcast"`` (the same layer, one format wider, with the same weights) or ``"substitute"``.
    tolerance, on_alert
        As for :class:`CheckLayer`.
    noise, amount, seed
        As for :class:`FuzzLayer`.
    substitute : keras.layers.Layer, optional
        What runs on the same inputs in that mode.
    every : int
        Check every so many calls, the first among them.

    Notes
    -----
    ``get_weights`` gives those of the layer alone, in its order. Seeds, running statistics and losses are those of the
    first run. In eager code a ``GradientTape`` holds on to the second run as well, until it is dropped.
    """

    def __init__(
        self,
        layer: Any,
        mode: str = "perturb",
        *,
        tolerance: float | None = None,
        on_alert: OnAlert = "warn",
        noise: str = "ulp",
        amount: float = 1.0,
        seed: int = 0,
        substitute: Any = None,
        every: int = 1,
        **kwargs: Any,
    ) -> None:
        if keras.backend.backend() != "tensorflow":
            raise UsageError(f"Keras runs on {keras.backend.backend()}", "KERAS_BACKEND=tensorflow")
        if mode not in MODES or (mode == "substitute") != (substitute is not None) or every < 1:
            raise UsageError(
                f"mode {mode!r}, every {every}", f"one of {MODES}, substitute=layer with 'substitute' alone"
            )
        kwargs.setdefault("name", f"check_{layer.name}")
        super().__init__(layer, **kwargs)
        self.mode, self.every = mode, every
        self.fuzz = FuzzLayer(noise, amount, seed)
        self.check = CheckLayer(tolerance, on_alert, name=layer.name)
        self.supports_jit = False
        self.supports_masking = True
        # Aside: its weights are not this layer's.
        self._other = _Aside(substitute)
        self._calls = tf.Variable(0, dtype=tf.int32, trainable=False)

    @property
    def records(self) -> dict[str, LayerRecord]:
        """By the place of the output in the result, which is empty for a lone tensor."""
        return self.check.records

    def build(self, input_shape: Any = None) -> None:
        """Build the layer; one of several inputs builds itself when it is called."""
        if not self.layer.built and isinstance(input_shape, tuple):
            self.layer.build(input_shape)
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer gives."""
        calls = self._calls.assign_add(1)
        states = list(self.layer.non_trainable_variables)
        before = [tf.identity(variable.value) for variable in states]
        result = self.layer(*args, **kwargs)
        if len(states) != len(self.layer.non_trainable_variables):
            return result  # it was built just now: this run only makes shapes known
        losses = [(one, list(one._losses)) for one in self.layer._flatten_layers()]
        after = [tf.identity(variable.value) for variable in states]

        def checked() -> Any:
            def run_again() -> list[Any]:
                self._put(states, before)
                return [one for _, one in named_tensors(self.layer(*args, **kwargs))]

            flat = [one for _, one in named_tensors(result)]
            # Once, on equal inputs.
            again = tf.cond(calls <= 1, run_again, lambda: [tf.identity(one) for one in flat])
            self._put(states, before)
            second = self._second(args, kwargs, calls)
            self._put(states, after)
            self.check.check(result, second, dict(enumerate(again)))
            return tf.constant(0)

        def alone() -> Any:
            names = [name for name, one in named_tensors(result) if one.dtype.name in FORMATS]
            _on_host(lambda: self.check._state.count(names), [])
            return tf.constant(0)

        if self.every == 1:
            checked()
        else:
            tf.cond((calls - 1) % self.every == 0, checked, alone)
        for one, kept in losses:
            one._losses.clear()
            one._losses.extend(kept)
        return result

    def _second(self, args: tuple[Any, ...], kwargs: dict[str, Any], calls: Any) -> Any:
        match self.mode:
            case "perturb":
                moved_args, moved_kwargs = self.fuzz.moved((args, kwargs), tf.stack([self.fuzz.seed, calls]))
                return self.layer(*moved_args, **moved_kwargs)
            case "substitute":
                return self._other.layer(*args, **kwargs)
            case _:
                return self._wide(args, kwargs)

    def _wide(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The layer made again one format wider, with its weights."""
        to = WIDER[keras.backend.standardize_dtype(self.layer.compute_dtype)]
        wide_args, wide_kwargs = tf.nest.map_structure(
            lambda one: tf.cast(one, to) if tf.is_tensor(one) and one.dtype.is_floating else one, (args, kwargs)
        )
        if self._other.layer is None:
            wide = type(self.layer).from_config({**self.layer.get_config(), "dtype": to})
            with tf.init_scope():
                if not wide.built:
                    wide.build(*(tuple(one.shape) for one in args if tf.is_tensor(one)))
            self._other.layer = wide
        for wide_variable, variable in zip(self._other.layer.variables, self.layer.variables, strict=True):
            wide_variable.assign(tf.cast(variable.value, wide_variable.dtype))
        return self._other.layer(*wide_args, **wide_kwargs)

    @staticmethod
    def _put(variables: list[Any], values: list[Any]) -> None:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self.layer.compute_mask(inputs, mask)

    def get_config(self) -> dict[str, Any]:
        substitute = self._other.layer if self.mode == "substitute" else None
        return {
            **super().get_config(),
            "mode": self.mode,
            "tolerance": self.check.tolerance,
            "on_alert": self.check.get_config()["on_alert"],
            "noise": self.fuzz.noise,
            "amount": self.fuzz.amount,
            "seed": self.fuzz.seed,
            "substitute": None if substitute is None else keras.saving.serialize_keras_object(substitute),
            "every": self.every,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> FuzzCheck:
        config = dict(config)
        if config.get("substitute") is not None:
            config["substitute"] = keras.saving.deserialize_keras_object(config["substitute"], custom_objects)
        return super().from_config(config, custom_objects)  # type: ignore[no-any-return]


class _Aside:
    """Holds a layer where Keras does not look for weights."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer


def remove_fuzz_checks(model: Any) -> Any:
    """A model of the same layers, with the same weights, without checks; only for Sequential and functional models."""

    def plain(layer: Any) -> Any:
        while isinstance(layer, FuzzCheck):
            layer = layer.layer
        return layer

    return keras.models.clone_model(model, clone_function=plain)


def named_tensors(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in what a layer gives, by their path."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from named_tensors(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for at, part in enumerate(value):
            yield from named_tensors(part, f"{path}.{at}" if path else str(at))
    elif tf.is_tensor(value):
        yield path, value


def _on_host(function: Callable[..., None], tensors: list[Any]) -> None:
    """Call a function of arrays: now, or each time that the graph runs that is being made."""
    if tf.executing_eagerly():
        function(*(one.numpy() for one in tensors))
    else:
        tf.numpy_function(lambda *arrays: function(*arrays), tensors, [])


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    """True for equal arrays; NaN equals NaN."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return bool(np.array_equal(first, second, equal_nan=True))
