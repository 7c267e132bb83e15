"""Fuzz and Check layers for Keras on TensorFlow: what they find, and that a model computes the same bits with them."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscanner.errors import UsageError
from opscanner.precision.ulp import ulp_distance

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
if keras.backend.backend() != "tensorflow":
    pytest.skip("Keras runs on another backend", allow_module_level=True)
from opscanner.dynamic.layers.keras import CheckLayer, FuzzCheck, FuzzLayer, perturbed, remove_fuzz_checks  # noqa: E402
from opscanner.dynamic.layers.records import NotDeterministic, PrecisionAlert  # noqa: E402

FORMATS = ("float16", "bfloat16", "float32", "float64")


def values(tensor: Any) -> np.ndarray:
    return tf.cast(tensor, tf.float64).numpy()


@keras.saving.register_keras_serializable(package="tests")
class Cancels(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return x - 1.0


@keras.saving.register_keras_serializable(package="tests")
class Doubles(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return x * 2.0


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("amount", [1, 3])
def test_each_number_moves_by_exactly_that_many_steps_and_specials_stay(format_: str, amount: int) -> None:
    generator = np.random.default_rng(1)
    numbers = generator.standard_normal(2000) * 2.0 ** generator.integers(-10, 10, 2000)
    before = tf.cast(tf.constant(numbers), format_)
    after = perturbed(before, [1, 2], amount=amount)
    assert after.dtype == before.dtype
    assert np.all(ulp_distance(values(before), values(after), format_) == amount)
    up = values(after) > values(before)
    # 5 standard deviations of a fair coin thrown 1,000 times are 8 %.
    assert 0.42 < up[numbers > 0].mean() < 0.58
    assert 0.42 < up[numbers < 0].mean() < 0.58
    largest = float(before.dtype.max)
    specials = tf.cast(tf.constant([0.0, -0.0, np.inf, -np.inf, np.nan, largest, -largest] * 20, tf.float64), format_)
    after = values(perturbed(specials, [1, 2], amount=amount))
    np.testing.assert_array_equal(after.reshape(20, 7)[:, :5], values(specials).reshape(20, 7)[:, :5])
    assert np.signbit(after.reshape(20, 7)[:, 1]).all()
    assert np.isfinite(after.reshape(20, 7)[:, 5:]).all()


def test_noise_of_the_published_kind() -> None:
    # As for torch: 1e-8 is one step of float32 above 1/8, and lost above 1/4.
    before = tf.constant([0.2, 0.3, 0.0, 5e-5, -0.2])
    after = perturbed(before, [1, 2], noise="fumi")
    assert ulp_distance(before.numpy(), after.numpy(), "float32").tolist() == [1, 0, 0, 0, 0]


def test_a_layer_under_test_between_fuzz_and_check_in_a_functional_model(tmp_path: Path) -> None:
    inputs = keras.Input((3,))
    same, moved = FuzzLayer(seed=4)(inputs)
    doubles = Doubles()
    model = keras.Model(inputs, CheckLayer(name="made")(doubles(same), doubles(moved)))
    x = np.array([[1.0, 3.0, 5.0]], np.float32)
    assert model.predict(x, verbose=0).tolist() == [[2.0, 6.0, 10.0]]
    record = model.get_layer("made").records[""]
    # Up from 1, 3 and 5 is a whole step, down half of one from 1, and doubling changes no step.
    assert record.max_ulp == 1.0
    assert (record.layer, record.format, record.checked) == ("made", "float32", 1)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.predict(x, verbose=0).tolist() == [[2.0, 6.0, 10.0]]
    assert again.get_layer("made").records[""].checked == 1
    assert any(isinstance(layer, FuzzLayer) and layer.seed == 4 for layer in again.layers)


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_layer_that_cancels_alerts_and_one_that_does_not_is_silent(in_graph: bool) -> None:
    x = tf.fill((200,), tf.constant(1 + 2.0**-12))
    told: list[PrecisionAlert] = []
    bad, good = FuzzCheck(Cancels(), on_alert=told.append), FuzzCheck(Doubles(), on_alert=told.append)
    for check in (bad, good):
        run = tf.function(check) if in_graph else check
        run(x)
    assert [alert.record.layer for alert in told] == [bad.layer.name]
    record = bad.records[""]
    # A step of float32 is 2**-23: 2**-12 against 2**-12 - 2**-23, over their sum.
    assert record.max_relative_error == 2.0**-23 / (2.0**-11 - 2.0**-23)
    assert (record.count, record.checked, record.first_failing_call) == (1, 1, 1)
    assert good.records[""].max_ulp == 1.0


def test_alerts_warn_once_or_raise() -> None:
    x = tf.fill((200,), tf.constant(1 + 2.0**-12))
    check = FuzzCheck(Cancels())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            check(x)
    assert sum(isinstance(one.message, PrecisionAlert) for one in caught) == 1
    assert check.records[""].alerts == 3
    with pytest.raises(PrecisionAlert, match="the maximal relative error is at least"):
        FuzzCheck(Cancels(), on_alert="raise")(x)
    with pytest.raises(tf.errors.OpError, match="the maximal relative error is at least"):
        tf.function(FuzzCheck(Cancels(), on_alert="raise"))(x)


def test_kinds_apart_are_told_and_not_hidden() -> None:
    told: list[PrecisionAlert] = []
    check = CheckLayer(tolerance=10.0, on_alert=told.append)
    first = tf.constant([1.0, np.nan, np.inf, np.nan])
    assert check(first, tf.constant([1.0, 2.0, -np.inf, np.nan])) is not None
    record = check.records[""]
    assert (record.nan_mismatches, record.infinity_mismatches, record.worst_index) == (1, 1, (1,))
    assert len(told) == 1


def plain_model() -> Any:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            keras.layers.Conv2D(4, 3, activation="relu", activity_regularizer="l2"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.4, seed=9),
            keras.layers.Reshape((16, 4)),
            keras.layers.LSTM(5, dropout=0.3, seed=8),
            keras.layers.Dense(3),
        ]
    )


def checked_model(**settings: Any) -> Any:
    layers = plain_model().layers
    return keras.Sequential([keras.Input((6, 6, 2)), *(FuzzCheck(layer, **settings) for layer in layers)])


@pytest.mark.slow
@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("mode", ["perturb", "upcast"])
def test_training_gives_the_bits_of_the_plain_model(mode: str, eagerly: bool) -> None:
    x = np.random.default_rng(1).standard_normal((12, 6, 6, 2)).astype(np.float32)
    y = x.sum((1, 2, 3), keepdims=False)[:, None] * np.ones((1, 3), np.float32)
    seen = []
    model = None
    for model in (plain_model(), checked_model(mode=mode, on_alert=lambda _: None)):
        model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=eagerly)
        history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        seen.append((history.history["loss"], model.get_weights(), model.predict(x, verbose=0)))
    (losses, weights, outputs), (checked_losses, checked_weights, checked_outputs) = seen
    assert losses == checked_losses
    assert len(weights) == len(checked_weights)
    assert all(np.array_equal(one, other) for one, other in zip(weights, checked_weights, strict=True))
    assert np.array_equal(outputs, checked_outputs)
    for layer in model.layers:
        record = layer.records[""]
        assert record.checked == record.count == 7, layer.name  # two epochs of three batches, and one to predict
        assert record.notes == []


def test_dropout_draws_the_same_mask_in_both_runs() -> None:
    check = FuzzCheck(keras.layers.Dropout(0.5, seed=1), on_alert="raise")
    result = values(check(tf.ones(1000), training=True))
    assert 300 < (result == 0).sum() < 700
    assert 0 < check.records[""].max_scaled_ulp <= 1.0
    assert not np.array_equal(values(check(tf.ones(1000), training=True)), result)  # the next call draws another


def test_upcast_shows_what_a_format_loses() -> None:
    layer = keras.layers.Dense(4, dtype="float16", kernel_initializer="ones", use_bias=False)
    told: list[PrecisionAlert] = []
    check = FuzzCheck(layer, "upcast", on_alert=told.append, tolerance=1e-6)
    # 2048 + 1 lies between two numbers of float16.
    check(tf.constant([[2048.0, 1.0]], tf.float16))
    record = check.records[""]
    assert record.worst == (2048.0, 2049.0)
    assert record.max_relative_error == 1 / 4097
    assert len(told) == 1
    assert len(check.get_weights()) == 1


def test_a_substitute_is_held_against_the_layer_and_has_no_weights_here() -> None:
    other = keras.layers.Dense(2, kernel_initializer="ones")
    check = FuzzCheck(
        keras.layers.Dense(2, kernel_initializer="zeros"), "substitute", substitute=other, on_alert=lambda _: None
    )
    assert values(check(tf.ones((1, 3)))).tolist() == [[0.0, 0.0]]
    # 0 against 3: below the absolute tolerance, so that no relative error is taken, but 3 is 3 * 2**22 steps of 2**-22.
    assert (check.records[""].max_relative_error, check.records[""].max_scaled_ulp) == (0.0, 3 * 2.0**22)
    assert len(check.trainable_weights) == 2


def test_a_layer_that_is_not_deterministic_is_said_so_and_not_compared() -> None:
    class Counts(keras.layers.Layer):
        calls = 0

        def call(self, x: Any) -> Any:
            Counts.calls += 1
            return x + float(Counts.calls)

    check = FuzzCheck(Counts())
    with pytest.warns(NotDeterministic, match="two results for equal inputs"):
        result = check(tf.ones(2))
    assert values(result).tolist() == [2.0, 2.0]
    check(tf.ones(2))
    assert (check.records[""].count, check.records[""].checked) == (2, 0)


def test_every_so_many_calls_are_checked() -> None:
    check = FuzzCheck(Doubles(), every=3)
    run = tf.function(check)
    for _ in range(7):
        run(tf.ones(2))
    assert (check.records[""].count, check.records[""].checked) == (7, 3)


def test_several_inputs_and_outputs_are_compared_by_name() -> None:
    class Two(keras.layers.Layer):
        def call(self, x: Any, y: Any) -> Any:
            return {"sum": x + y, "both": [x, tf.cast(y, tf.int32)]}

    check = FuzzCheck(Two())
    result = check(tf.ones(3), tf.ones(3) * 5.5)
    assert values(result["sum"]).tolist() == [6.5] * 3
    assert set(check.records) == {"sum", "both.0"}  # integers are not compared
    assert check.records["both.0"].max_ulp == 1.0


def test_a_model_with_checks_is_saved_loaded_and_stripped(tmp_path: Path) -> None:
    inputs = keras.Input((4,))
    hidden = FuzzCheck(keras.layers.Dense(3), every=2, tolerance=0.5, noise="fumi")(inputs)
    model = keras.Model(inputs, FuzzCheck(Doubles(), "substitute", substitute=Doubles())(hidden))
    x = np.ones((2, 4), np.float32)
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(again.predict(x, verbose=0), expected)
    checks = [layer for layer in again.layers if isinstance(layer, FuzzCheck)]
    assert [(one.mode, one.every, one.check.tolerance, one.fuzz.noise) for one in checks] == [
        ("perturb", 2, 0.5, "fumi"),
        ("substitute", 1, None, "ulp"),
    ]
    plain = remove_fuzz_checks(model)
    assert [type(layer).__name__ for layer in plain.layers] == ["InputLayer", "Dense", "Doubles"]
    assert np.array_equal(plain.predict(x, verbose=0), expected)
    assert plain.layers[1].kernel is model.layers[1].layer.kernel


def test_settings_that_mean_nothing_are_refused() -> None:
    for make in (
        lambda: FuzzCheck(Doubles(), "shuffle"),
        lambda: FuzzCheck(Doubles(), "substitute"),
        lambda: FuzzCheck(Doubles(), substitute=Doubles()),
        lambda: FuzzCheck(Doubles(), every=0),
        lambda: FuzzLayer(noise="gaussian"),
        lambda: FuzzLayer(amount=0.5),
        lambda: CheckLayer(on_alert="shout"),
    ):
        with pytest.raises(UsageError):
            make()
