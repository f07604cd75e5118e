#!/usr/bin/env bash
# beside.sh CHECK COMMAND...: runs the command, and the check beside it; fails if either does. The check's output comes
# at the end, so that it does not run into the command's.
set -uo pipefail
check=$1; shift
said=$(mktemp)
bash -c "$check" >"$said" 2>&1 &
checking=$!
trap 'kill $checking 2>/dev/null; rm -f "$said"' EXIT
"$@"; tested=$?
wait $checking; checked=$?
cat "$said"
[ $checked = 0 ] || echo "The check failed: $check" >&2
exit $((tested ? tested : checked))
