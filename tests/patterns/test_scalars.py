"""Whether a parameter is one number or many, as the function's type says."""

from __future__ import annotations

import pytest

from opscanner.graph.flow_graph import FlowGraph, InstanceFacts
from opscanner.patterns.scalars import by_value


@pytest.mark.parametrize(
    ("signature", "position", "one_number"),
    [
        ("void (int, const float *, float)", 2, True),
        ("void (int, const float *, float)", 1, False),
        ("c10::Half (const c10::Half &)", 0, True),
        ("void (std::array<float, 2>, Eigen::half)", 0, False),
        ("void (std::array<float, 2>, Eigen::half)", 1, True),
        ("void (TTypes<float, 1>::ConstTensor, double)", 0, False),
        ("float (const float (&)[4])", 0, False),
        # Behind the parameters stand captures and the object: the type says nothing of them.
        ("void (float)", 3, True),
    ],
)
def test_pointers_arrays_and_containers_are_no_scalars(signature: str, position: int, one_number: bool) -> None:
    graph = FlowGraph(1, "none")
    graph.instance.append(
        InstanceFacts(1, 1, "f", "f.cu", "", signature, True, True, is_lambda=False, device=True, has_error=False)
    )
    graph.position[0] = position
    assert by_value(graph, 0) is one_number
