#!/usr/bin/env bash
# Spark needs a Java runtime, 17 or newer: finds one, or installs Debian's when that is possible.
set -euo pipefail
major() { "$1" -version 2>&1 | sed -nE '1s/.*"([0-9]+)[."].*/\1/p'; }
for java in "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java || true)"; do
  if [ -x "$java" ] && [ "$(major "$java" || echo 0)" -ge 17 ] 2>/dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "No Java 17 found: installing openjdk-17-jre-headless ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null && exit 0
fi
cat >&2 <<'MESSAGE'
Spark needs a Java runtime, version 17 or newer, and none was found. Install one, then run make again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora           sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17   (and set JAVA_HOME as brew says)
If Java is installed somewhere unusual, set JAVA_HOME to its folder.
MESSAGE
exit 1
