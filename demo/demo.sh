#!/usr/bin/env bash
# `make demo`: what a torch extension's CUDA kernels do to precision, from its sources alone.
#
# Every command is printed before it runs, so that it can be tried by hand with other sources: activate .venv first.
# Writes opscanner.sqlite in the current folder and downloads into build/demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/${VENV:-.venv}/bin:$PATH"
export PYTHON="$PWD/${VENV:-.venv}/bin/python"
unset OPSCANNER_DB # the demo's database is the default one

sources=build/demo/torch_scatter-2.1.2
step=0

say() {
    step=$((step + 1))
    printf '\n== %d. %s\n\n' "$step" "$1"
}

run() {
    local word shown=
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./:=,-]*) word="\"$word\"" ;; esac
        shown+=" $word"
    done
    printf '$%s\n' "$shown"
    local status=0
    "$@" || status=$?
    # 3: done, but something was skipped, and the output says what
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || exit "$status"
}

say "The sources of torch-scatter 2.1.2, a torch extension: downloaded, unpacked, not built"
run scripts/get_sources.sh build/demo torch-scatter-2.1.2

say "Scan its CUDA units: parse each as clang would compile it, follow all instantiations, keep a graph"
run opscanner scan "$sources" --only 'csrc/cuda/*.cu'

say "Where do formats change, and how is it written? (device: reached by GPU code)"
run opscanner sql "SELECT from_format, to_format, form, sites, constant_sites, device_sites
    FROM formats_summary ORDER BY from_format, to_format, form"

say "Where does arithmetic on the GPU stay in 16 bit?"
run opscanner sql "SELECT file, line, operation, category, format, function FROM arithmetic
    WHERE format IN ('float16', 'bfloat16') AND category IN ('arith', 'math', 'reduction', 'atomic') AND pass = 'device'
    ORDER BY file, line, format"

cast_id() { # the first cast that a condition on the view casts finds
    opscanner sql --format csv "SELECT min(id) FROM casts WHERE $1" | tail -n 1 | tr -d '\r'
}

say "One value's way. A warp hands partial sums around as float32, but they are added in bfloat16 (reducer.cuh:74)"
run opscanner chains "$(cast_id "file LIKE '%segment_csr_cuda.cu' AND line = 51 AND to_format = 'bfloat16'")"

say "From a load to a store: ten lines of CUDA of which nobody sees that they multiply in float64"
run cat demo/scale.cu
run opscanner scan demo/scale.cu
run opscanner chains "$(cast_id "file = 'scale.cu' AND from_format = 'float64'")"

printf '\nThe graph is in opscanner.sqlite. Next: opscanner --help, or docs/index.md.\n'
