#!/usr/bin/env bash
# coverage.sh BIN [pytest's arguments]: the tests under coverage, in all processes that they start.
set -uo pipefail
bin=$1; shift
mkdir -p out && rm -f out/.coverage*
# Under coverage the longest tests take several times as long, and xdist does not survive one that is timed out.
"$bin/coverage" run -m pytest -n 4 --dist loadgroup --timeout 3600 "$@"; tested=$?
"$bin/coverage" combine -q
"$bin/coverage" report | tee out/coverage.txt | tail -n 1
exit $tested
