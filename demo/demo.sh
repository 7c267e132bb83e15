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

say "Scan them: parse every CUDA unit as clang would compile it, follow all instantiations, keep a graph"
run opscanner scan "$sources"

say "Where do formats change, and how is it written?"
run opscanner sql "SELECT from_format, to_format, form, sites FROM formats_summary ORDER BY sites DESC"

say "Where does arithmetic stay in 16 bit?"
run opscanner sql "SELECT file, line, operation, category, format, function FROM arithmetic
    WHERE format IN ('float16', 'bfloat16') AND category IN ('arith', 'math', 'reduction', 'atomic')
    ORDER BY category, file, line"

say "One value's way: from where it is read, through a cast, to where it ends"
cast=$(opscanner sql --format csv "SELECT min(id) FROM casts
    WHERE from_format = 'float16' AND to_format = 'float32' AND NOT constant AND pass = 'device'" | tail -n 1 | tr -d '\r')
run opscanner chains "$cast"

printf '\nThe graph is in opscanner.sqlite. Next: opscanner --help, or docs/index.md.\n'
