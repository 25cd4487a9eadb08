#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a virtual environment with OpenDPU and everything its tests need; needs no root.
# setup.sh [FOLDER [REQUIREMENT...]]: .venv and ".[dev]" where nothing is given.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv}
shift $(($# > 0))
[ $# -gt 0 ] || set -- '.[dev]'

fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }

pick_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

if [ ! -x "$venv/bin/python" ]; then
    python=$(pick_python) || fail "no Python 3.11 or newer was found." \
        "On Debian or Ubuntu: sudo apt-get install python3 python3-venv (or set PYTHON=/path/to/python)"
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv "$venv"
    elif "$python" -c 'import virtualenv' 2>/dev/null; then
        "$python" -m virtualenv --quiet "$venv"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --without-pip "$venv"
        "$python" -m pip --python "$venv/bin/python" install --quiet pip
    elif [ "$EUID" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing python3-venv, which $("$python" --version) lacks"
        if command -v flock >/dev/null; then  # two environments may be made at a time
            exec 9<scripts && flock 9
        fi
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null ||
            fail "apt-get could not install python3-venv; its own message is above."
        "$python" -m venv "$venv"
    else
        fail "$("$python" --version) cannot make a virtual environment." \
            "On Debian or Ubuntu: sudo apt-get install python3-venv (or: pip install --user virtualenv)"
    fi
fi

for tool in g++ make perl; do
    command -v "$tool" >/dev/null || printf 'setup: warning: %s\n' \
        "$tool is missing; the RTL simulator needs it (sudo apt-get install g++ make perl)" >&2
done

echo "setup: installing OpenDPU and its tools into $venv (a minute or two)"
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$@"; then
    fail "pip could not install OpenDPU; its own message is above." \
        "A broken $venv can simply be deleted; 'make setup' makes it again."
fi
