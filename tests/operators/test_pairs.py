"""The table of operator pairs: names are the frameworks' own, calls leave nothing open, numbers are made."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from opscanner.errors import OpscannerError
from opscanner.operators.groups import OTHER, module_group
from opscanner.operators.pairs import (
    ERROR_CLASSES,
    PairInput,
    data_folder,
    find_pair,
    load_pairs,
    pairs_of,
    parse_inputs,
)

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "check_operator_pairs.py"
NEEDED = ("numpy", "torch", "tensorflow")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_both_frameworks = pytest.mark.skipif(
    bool(MISSING), reason=f"OPERATOR PAIRS NOT RUN: {', '.join(MISSING)} cannot be imported"
)
GRADIENTS = {
    *("EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad", "ReluGrad", "Relu6Grad", "TanhGrad"),
    *("SigmoidGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad", "BiasAddGrad", "LRNGrad", "CholeskyGrad"),
    *("MaxPoolGrad", "AvgPoolGrad", "MaxPool3DGrad", "AvgPool3DGrad", "FusedBatchNormGradV3", "ResizeBilinearGrad"),
    *("ResizeBicubicGrad", "ResizeNearestNeighborGrad", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
    *("Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput", "CropAndResizeGradImage", "RandomGammaGrad"),
}


def test_there_are_at_least_300_pairs_and_their_ids_are_unique() -> None:
    ids = [pair.id for pair in load_pairs()]
    assert len(ids) >= 300
    assert len(set(ids)) == len(ids)


def test_forward_and_backward_operators_are_both_there() -> None:
    backward = [pair for pair in load_pairs() if pair.direction == "backward"]
    assert {pair.direction for pair in load_pairs()} == {"forward", "backward"}
    assert len(backward) >= 50
    assert {pair.tensorflow for pair in backward} >= GRADIENTS


def test_every_aten_name_is_a_function_of_native_functions(pytorch_root: Path) -> None:
    text = (pytorch_root / "aten/src/ATen/native/native_functions.yaml").read_text(encoding="utf-8")
    functions = set(re.findall(r"^- func: (\w+)", text, re.MULTILINE))
    named = {(pair.id, name) for pair in load_pairs() for name in (*pair.aten, *pair.aten_cuda)}
    assert {(identifier, name) for identifier, name in named if name not in functions} == set()
    assert all(pair.aten for pair in load_pairs())


def test_every_tensorflow_name_is_registered(tensorflow_root: Path) -> None:
    """Bitcast alone is registered through the C interface."""
    registered: set[str] = set()
    for folder in ("tensorflow/core/ops", "tensorflow/c/kernels/ops"):
        for source in (tensorflow_root / folder).rglob("*.cc"):
            text = source.read_text(encoding="utf-8")
            registered |= set(re.findall(r'(?:REGISTER_OP|TF_NewOpDefinitionBuilder)\(\s*"(\w+)"', text))
    assert {(pair.id, pair.tensorflow) for pair in load_pairs() if pair.tensorflow not in registered} == set()


def test_a_call_names_the_op_of_its_row_unless_tensorflow_composes_it() -> None:
    """Gradients by tape name the forward op, and the row the gradient op that it runs."""
    for pair in load_pairs():
        if pair.composed_in not in ("tensorflow", "both") and "grad(" not in pair.tensorflow_call:
            assert f"raw.{pair.tensorflow}(" in pair.tensorflow_call, pair.id


def test_the_elu_pair_reads_as_its_row_says() -> None:
    pair = find_pair("elu")
    assert (pair.aten, pair.tensorflow, pair.direction, pair.module) == (("elu",), "Elu", "forward", "activation")
    assert (pair.torch_call, pair.tensorflow_call) == ("F.elu(x, alpha=1.0)", "raw.Elu(features=x)")
    assert pair.inputs == (PairInput("x", "float", (4, 25), -10.0, 10.0),)


def test_the_pairs_of_an_operator_are_found_from_either_side() -> None:
    assert {pair.id for pair in pairs_of(aten="elu_backward")} == {"elu_grad", "elu_grad.from_input", "selu_grad"}
    assert [pair.id for pair in pairs_of(tensorflow="SeluGrad")] == ["selu_grad"]
    assert pairs_of(aten="elu", tensorflow="Relu") == ()
    assert [pair.id for pair in pairs_of(aten="_thnn_fused_lstm_cell")] == ["lstm_cell", "lstm"]


def test_what_a_framework_composes_is_told_apart_from_what_it_has_a_kernel_for() -> None:
    """By reading: torch has no kernel for softsign, TensorFlow none for gelu; both have one for elu."""
    assert find_pair("softsign").composed_in == "torch"
    assert find_pair("gelu.tanh").composed_in == "tensorflow"
    assert find_pair("logsumexp_grad").composed_in == "both"
    assert find_pair("elu").composed_in == ""
    assert {"Tanh", "Pow", "Mul"} <= set(find_pair("gelu.tanh").tensorflow_ran)


def test_defaults_that_differ_are_set_alike_on_both_sides() -> None:
    """TensorFlow's LeakyRelu has 0.2, torch's leaky_relu 0.01 (2.14.1 nn_ops.cc; 2.6.0 native_functions.yaml)."""
    for name in ("leaky_relu", "leaky_relu_grad"):
        pair = find_pair(name)
        assert "0.25" in pair.torch_call
        assert "alpha=0.25" in pair.tensorflow_call


def test_bounds_follow_from_the_class_the_terms_and_the_format() -> None:
    """By hand: 4096 * 2**-53; 32 * 8 terms * 2**-53; 65536 * 2**-24 whatever the format."""
    assert find_pair("exp").bound == 2.0**-41
    assert find_pair("mm").bound == 2.0**-45
    assert find_pair("upsample_bicubic2d.align_corners").bound == 2.0**-8
    assert find_pair("relu").bound == 0.0


def test_sums_stay_short_enough_for_their_bound() -> None:
    """For signs at random sum(abs) is about sqrt(n) times the sum: at most 16 times for 256 terms."""
    assert all(pair.terms <= 256 for pair in load_pairs() if pair.error_class == "sum")


def test_every_number_stays_within_its_bound_and_every_blank_has_a_reason() -> None:
    for pair in load_pairs():
        assert pair.error_class in ERROR_CLASSES, pair.id
        if pair.unchecked_because:
            assert (pair.result, pair.difference) == ("not_checked", None), pair.id
        else:
            assert pair.result == "checked", pair.id
            assert pair.difference is not None, pair.id
            assert pair.difference <= pair.bound, pair.id
            assert set(pair.aten) <= set(pair.aten_ran), pair.id
            assert pair.tensorflow in pair.tensorflow_ran, pair.id


def test_at_least_300_pairs_have_run_on_both_sides() -> None:
    assert sum(pair.result == "checked" for pair in load_pairs()) >= 300


def test_the_module_group_is_one_that_a_name_of_the_pair_has() -> None:
    """Where no name tells, a row may: embedding belongs to transformers."""
    for pair in load_pairs():
        told = {module_group(name) for name in (pair.tensorflow, *pair.aten)} - {OTHER}
        assert pair.module in (told or {OTHER, "transformer"}), pair.id


def test_what_describes_no_input_is_refused_with_its_text() -> None:
    with pytest.raises(OpscannerError, match=r"'x float' describes no input"):
        parse_inputs("x float")


def test_the_table_is_found_without_torch_tensorflow_or_numpy() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'tensorflow', 'numpy']));"
        "from opscanner.operators.pairs import load_pairs; print(len(load_pairs()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert int(done.stdout) == len(load_pairs())


def test_the_table_ends_its_lines_as_the_script_writes_them() -> None:
    text = (data_folder() / "operator_pairs.csv").read_bytes()
    assert b"\r" not in text
    assert text.endswith(b"\n")


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@needs_both_frameworks
@pytest.mark.slow
def test_running_every_pair_again_gives_the_same_table() -> None:
    """On another release or CPU the last digits may differ (exit code 3), the bounds hold all the same."""
    done = run_script()
    assert done.returncode in (0, 3), done.stdout + done.stderr
    origin = json.loads((data_folder() / "operator_pairs.origin.json").read_text(encoding="utf-8"))
    program = "import json; from opscanner.operators import pair_check; print(json.dumps(pair_check.origin()))"
    here = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    if json.loads(here.stdout.splitlines()[-1]) == origin:
        assert done.returncode == 0, done.stdout


@needs_both_frameworks
@pytest.mark.slow
def test_a_backward_pass_is_told_from_the_forward_pass_and_from_what_nobody_asked_for() -> None:
    import numpy as np

    from opscanner.frameworks.pytorch import runner as pytorch
    from opscanner.frameworks.tensorflow import runner as tensorflow

    inputs = {"x": np.linspace(0.5, 2, 6).reshape(2, 3), "b": np.ones((1, 3)), "dy": np.ones((2, 3))}

    def torch_ran(expression: str) -> tuple[str, ...]:
        return pytorch.backward_operators_run(expression, inputs, "float64")

    def tensorflow_ran(expression: str) -> tuple[str, ...]:
        return tensorflow.backward_operators_run(expression, inputs, "float64")

    # d log(x) = dy / x, whatever came before; tanh's gradient is an operator of its own.
    assert torch_ran("grad(lambda x: torch.log(x), x, dy)") == ("div",)
    assert torch_ran("grad(lambda x: torch.tanh(torch.exp(x)), x, dy)") == ("tanh_backward", "mul")
    assert torch_ran("torch.log(x)") == ()
    assert tensorflow_ran("grad(lambda x: raw.Tanh(x=raw.Exp(x=x)), x, dy)") == ("TanhGrad", "Mul")
    assert tensorflow_ran("raw.Log(x=x)") == ()
    # A broadcast operand's gradient is a sum; its partner's is none.
    assert tensorflow_ran("grad(lambda b: raw.AddV2(x=x, y=b), b, dy)") == ("Sum",)
    assert tensorflow_ran("grad(lambda x: raw.AddV2(x=x, y=b), x, dy)") == ()


WRONG_ROWS = [
    ("leaky_relu", "tensorflow_call", "raw.LeakyRelu(features=x, alpha=0.2)", "differs by"),
    ("leaky_relu", "tensorflow_call", "raw.LeakyRelu(features=x)", "leaves raw.LeakyRelu.alpha to its default"),
    ("leaky_relu", "torch_call", "F.leaky_relu(x)", "leaves F.leaky_relu.negative_slope to its default"),
    ("relu", "torch_call", "torch.sum(x, dim=1)", "leaves torch.sum.keepdim to its default"),
    ("relu", "torch_call", "torch.clamp(x, 0)", "aten relu did not run"),
    ("relu", "tensorflow_call", "raw.Maximum(x=x, y=tf.zeros_like(x))", "tensorflow Relu did not run"),
    ("sgd", "torch_call", "torch.optim.SGD([p], lr=0.125)", "leaves torch.optim.SGD.momentum to its default"),
    ("gelu.tanh", "tensorflow_call", "tf.nn.gelu(x)", "leaves tf.nn.gelu.approximate to its default"),
    ("relu", "inputs", "x: float (4, 25) in [-10, -1]", "every output is zero"),
    ("relu", "torch_call", "F.relu(z)", "NameError"),
    ("relu", "unchecked_because", "refused: no kernel", "TensorFlow runs it"),
    ("relu", "unchecked_because", "random", "both sides agree"),
    ("ctc_loss", "unchecked_because", "random", "TensorFlow refuses"),
    ("isnan", "torch_call", "torch.isinf(y)", "differs by"),
]


@needs_both_frameworks
@pytest.mark.slow
def test_rows_that_are_wrong_are_faults_and_the_table_stays_as_it_is(tmp_path: Path) -> None:
    with (data_folder() / "operator_pairs.csv").open(newline="", encoding="utf-8") as lines:
        rows = {row["id"]: row for row in csv.DictReader(lines)}
    table = tmp_path / "pairs.csv"
    with table.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows["relu"]))
        writer.writeheader()
        for number, (identifier, column, text, _) in enumerate(WRONG_ROWS):
            writer.writerow({**rows[identifier], "id": f"wrong{number}", column: text})
    before = table.read_bytes()
    done = run_script("--table", str(table), "--write")
    assert done.returncode == 1
    for number, (*_, complaint) in enumerate(WRONG_ROWS):
        assert f"FAULT wrong{number}: {complaint}" in done.stdout, done.stdout
    assert table.read_bytes() == before


def test_reference_tables_hold_the_published_numbers() -> None:
    """Read by eye from tensorflow#67440, and from the study's and FuMi's entries in the README."""
    folder = data_folder() / "reference"
    with (folder / "tensorflow_67440.csv").open(newline="", encoding="utf-8") as lines:
        table = {row["operator"]: row for row in csv.DictReader(lines)}
    assert len(table) == 6
    assert table["seluGrad"]["tensorflow_largest_difference"] == "10.41794"
    assert table["softplusGrad"]["pytorch_largest_difference"] == "0.12484"
    with (folder / "published_figures.csv").open(newline="", encoding="utf-8") as lines:
        figures = {row["id"]: row["value"] for row in csv.DictReader(lines)}
    assert (figures["study_cast_places"], figures["study_files"]) == ("641", "117")


def test_every_row_of_the_reference_tables_has_every_column() -> None:
    for file in sorted((data_folder() / "reference").glob("*.csv")):
        with file.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        assert rows, file.name
        assert all(len(row) == len(header) for row in rows), file.name
        assert f"`{file.name}`" in (REPOSITORY / "data" / "README.md").read_text(encoding="utf-8")


def test_the_readme_quotes_the_table() -> None:
    page = (REPOSITORY / "data" / "README.md").read_text(encoding="utf-8")
    checked = [pair for pair in load_pairs() if pair.result == "checked"]
    equal = sum(pair.difference == 0 for pair in checked)
    left = len(load_pairs()) - len(checked)
    assert f"{len(load_pairs())} pairs of a PyTorch operator" in page
    assert f"{len(checked)} pairs ran, {equal} of them with no difference at all; {left} could not" in page
