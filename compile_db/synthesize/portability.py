"""Corrections of sources that nvcc's front end accepts and clang refuses, made in memory.

clang reads the corrected text from the cache by a file-system overlay, under the file's own name: every location stays
where the reader's checkout has it (a correction keeps line numbers), and the checkout is not written to. Each row says
what the standard demands; none changes a type, a conversion or an operation.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compile_db.synthesize.cache import generated


@dataclass(frozen=True)
class Correction:
    """In files whose path ends in ``file``, ``written`` reads ``meant``."""

    file: str
    written: str
    meant: str
    why: str


MEM_EFF = "aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h"
CORRECTIONS = (
    Correction(MEM_EFF, "MatmulQK::Mma::prologue<", "MatmulQK::Mma::template prologue<",
               "[temp.names]/5: a dependent member template needs the keyword"),
    Correction(MEM_EFF, "EpilogueOutputOp rescale({1, 1});",
               "EpilogueOutputOp rescale(typename EpilogueOutputOp::Params(1, 1));",
               "[over.best.ics]/4: {1, 1} is ambiguous with the copy constructor"),
    Correction(MEM_EFF, "typename MatmulDOIVJ::BiasGradEpilogue::OutputOp output_op({1, 1});",
               "typename MatmulDOIVJ::BiasGradEpilogue::OutputOp output_op(typename"
               " MatmulDOIVJ::BiasGradEpilogue::OutputOp::Params(1, 1));",
               "[over.best.ics]/4: {1, 1} is ambiguous with the copy constructor"),
    Correction("aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h",
               "Params{MM1::LayoutB(p.v_strideM)}", "Params{typename MM1::LayoutB(p.v_strideM)}",
               "[temp.res]/5: a dependent name is no type without the keyword"),
    Correction("cutlass/matrix.h", "set_slice3x3(", "set_slice_3x3(",
               "[temp.res]/8: a member that no instantiation has (CUTLASS up to 3.8)"),
    # CUB of CUDA 12 with -D__CUDA_NO_HALF_OPERATORS__, which frameworks give. The operators call these intrinsics.
    Correction("cub/agent/agent_sub_warp_merge_sort.cuh", "(return lhs == rhs;)", "(return __heq(lhs, rhs);)",
               "[temp.res]/8: the operator is not declared where the template is defined"),
    Correction("cub/device/dispatch/dispatch_histogram.cuh", "(return sample >= min_level && sample < max_level;)",
               "(return __hge(sample, min_level) && __hlt(sample, max_level);)",
               "[temp.res]/8: the operator is not declared where the template is defined"),
)  # fmt: skip


def overlay_arguments(folders: Sequence[Path], cache_dir: str | os.PathLike[str]) -> tuple[str, ...]:
    """``-ivfsoverlay FILE`` for the files of ``folders`` that need a correction; nothing where none does."""
    corrected: dict[Path, str] = {}
    for row in CORRECTIONS:
        for folder in folders:
            path = folder / row.file
            if path not in corrected and not path.is_file():
                continue
            text = corrected.get(path) or path.read_text(encoding="utf-8", errors="surrogateescape")
            if row.written in text:
                corrected[path] = text.replace(row.written, row.meant)
    if not corrected:
        return ()
    digest = hashlib.sha256()
    for path, text in sorted(corrected.items()):
        digest.update(f"{path}\0{text}\0".encode("utf-8", "surrogateescape"))
    name = f"corrections-{digest.hexdigest()[:12]}"

    def make(folder: Path) -> None:
        final = Path(os.path.abspath(cache_dir), name)
        roots = []
        for number, (path, text) in enumerate(sorted(corrected.items())):
            (folder / f"{number}.h").write_text(text, encoding="utf-8", errors="surrogateescape")
            roots.append({"name": str(path), "type": "file", "external-contents": str(final / f"{number}.h")})
        overlay = {"version": 0, "use-external-names": False, "case-sensitive": True, "roots": roots}
        (folder / "overlay.json").write_text(json.dumps(overlay, indent=1), encoding="utf-8")

    return ("-ivfsoverlay", str(generated(cache_dir, name, make) / "overlay.json"))
