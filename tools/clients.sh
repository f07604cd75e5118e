#!/usr/bin/env bash
# Tests with other vendors' MQTT clients want mosquitto_sub, node and npm, those with a receiver gpsd and gpsfake, those of
# the studio's page Chromium, those of a log in a database PostgreSQL, those that set
# the clock faketime: installs Debian's where that is possible.
# Where it is not, those tests are skipped and say so; nothing else needs them.
set -euo pipefail
missing=()
command -v mosquitto_sub >/dev/null || missing+=(mosquitto-clients)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
[ -x /usr/sbin/gpsd ] && command -v gpsfake >/dev/null || missing+=(gpsd gpsd-clients)
command -v chromium >/dev/null || missing+=(chromium)
command -v faketime >/dev/null || missing+=(faketime)
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]} ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null && exit 0
fi
echo "Not installed: ${missing[*]}. Tests that need them are skipped."
