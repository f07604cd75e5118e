#!/usr/bin/env bash
# Creates the virtual environment and installs the package; says what to do when that is not possible.
set -euo pipefail
python=$1 venv=$2
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  found=$("$python" --version 2>/dev/null || echo "not installed")
  echo "roamcast needs Python 3.11 or newer; '$python' is $found." >&2
  echo "Install it (Debian: apt-get install python3 python3-venv) or say which: make PYTHON=python3.12 ..." >&2
  exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  echo "This Python has no venv module. Debian and Ubuntu: apt-get install python3-venv" >&2
  exit 1
fi
[ -x "$venv/bin/pip" ] || { echo "Creating $venv ..."; "$python" -m venv "$venv"; }
echo "Installing roamcast and its dependencies into $venv (about a minute the first time) ..."
"$venv/bin/pip" install -q --disable-pip-version-check -e '.[dev]'
