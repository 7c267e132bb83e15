#!/usr/bin/env bash
# Brings released sources into DEST, unpacked and never built. Does nothing for those that are there.
#
#   usage: scripts/get_sources.sh DEST NAME...
#   NAME:  pytorch-2.6.0  pytorch-1.13.1  tensorflow-2.14.1   from Debian's source packages, about a minute each
#          torch-scatter-2.1.2                                with pip, as the source distribution whose hash is
#                                                             pinned in demo/requirements.txt ($PYTHON has torch)
#
# Debian's archives are taken from the mirror that this machine's apt already uses, with package lists of our own:
# no root, and nothing under /etc changes. Where there is no such mirror, the last lines say what to do by hand.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

by_hand() { # NAME TAG REPOSITORY FOLDER
    fail "$1: $5" \
        "  try: git clone --depth 1 --branch $2 $3 '$dest/$4'" \
        "       touch '$dest/.$1'"
}

# The first stanza (or line) of the machine's own apt sources, as sources of another suite.
own_source_list() { # SUITE
    local stanza file
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        [ -s "$file" ] || continue
        case $file in
        *.sources)
            stanza=$(awk 'BEGIN { RS = "" } NR == 1' "$file")
            sed "s/^Types:.*/Types: deb-src/; s/^Suites:.*/Suites: $1/; s/^Components:.*/Components: main/" <<<"$stanza"
            return
            ;;
        *)
            stanza=$(awk '/^deb / { print; exit }' "$file")
            [ -n "$stanza" ] || continue
            awk -v suite="$1" '{
                i = 2; options = ""
                if ($2 ~ /^\[/) { while ($i !~ /\]$/) i++; i++ }
                print "Types: deb-src\nURIs: " $i "\nSuites: " suite "\nComponents: main"
            }' <<<"$stanza"
            return
            ;;
        esac
    done
    return 1
}

from_debian() { # NAME PACKAGE VERSION SUITE TAG REPOSITORY FOLDER
    local name=$1 package=$2 version=$3 suite=$4 work full archive
    local manual=("$name" "$5" "$6" "$7")
    command -v apt-get >/dev/null || by_hand "${manual[@]}" "this machine has no apt to fetch it with"
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    mkdir -p "$work"/{lists/partial,cache/archives/partial,fetched}
    own_source_list "$suite" >"$work/own.sources" || by_hand "${manual[@]}" "apt on this machine has no Debian mirror"
    local options=(
        -o "Dir::Etc::SourceList=$work/own.sources" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=""
    )
    apt-get "${options[@]}" -qq update || by_hand "${manual[@]}" "apt-get update failed for Debian's $suite"
    full=$(apt-cache "${options[@]}" showsrc "$package" 2>/dev/null |
        sed -n 's/^Version: //p' | awk -v v="$version" 'index($0, v) == 1 { print; exit }')
    [ -n "$full" ] || by_hand "${manual[@]}" "Debian's $suite no longer has $package $version"
    # A .dsc that is gone from the mirror does no harm: only the upstream archive is used.
    (cd "$work/fetched" && apt-get "${options[@]}" source --download-only -qq "$package=$full" >"$work/log" 2>&1) || true
    archive=$(find "$work/fetched" -name '*.orig.tar.*' ! -name '*.asc' | head -n 1)
    [ -n "$archive" ] || by_hand "${manual[@]}" "the archive of $package $full did not come: $(tail -n 1 "$work/log")"
    mkdir "$work/tree"
    tar xf "$archive" -C "$work/tree" --strip-components=1
    rm -rf "${dest:?}/$7"
    mv "$work/tree" "$dest/$7"
    rm -rf "$work"
    trap - EXIT
}

from_pip() { # NAME FOLDER
    local work
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    # pip asks a source distribution's setup.py for its metadata, and this one imports torch to answer: hence no build
    # isolation. Nothing is compiled. The hash says which setup.py that is.
    local command=("$python" -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation
        --require-hashes --requirement "$here/demo/requirements.txt" --dest "$work")
    printf '$ %s\n' "${command[*]/"$work"/DOWNLOADS}" >&2
    "${command[@]}" || fail "$1: pip could not fetch it" \
        "  try: make demo, which installs torch beforehand (setup.py needs it), or PYTHON=.venv/bin/python"
    rm -rf "${dest:?}/$2"
    tar xzf "$work"/*.tar.gz -C "$dest"
    rm -rf "$work"
    trap - EXIT
}

[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
dest=$(cd "$1" && pwd)
shift
pytorch=https://github.com/pytorch/pytorch
for name in "$@"; do
    if [ -e "$dest/.$name" ]; then continue; fi
    case $name in
    pytorch-2.6.0) from_debian "$name" pytorch 2.6.0 trixie v2.6.0 $pytorch pytorch-v2.6.0 ;;
    pytorch-1.13.1) from_debian "$name" pytorch 1.13.1 bookworm v1.13.1 $pytorch pytorch-1.13.1 ;;
    tensorflow-2.14.1)
        from_debian "$name" tensorflow 2.14.1 sid v2.14.1 https://github.com/tensorflow/tensorflow tensorflow-2.14.1
        ;;
    torch-scatter-2.1.2) from_pip "$name" torch_scatter-2.1.2 ;;
    *) fail "unknown source: $name" ;;
    esac
    touch "$dest/.$name"
    echo "$name: unpacked below $dest" >&2
done
