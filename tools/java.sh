#!/usr/bin/env bash
# Spark needs a Java runtime, 17 or newer: finds one, or installs Debian's when that is possible.
set -euo pipefail
# Other lines may come first (JAVA_TOOL_OPTIONS announces itself), so look for the one with the version.
major() { "$1" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1; }
good() { [ -x "$1" ] && [ "$(major "$1")" -ge 17 ] 2>/dev/null; }
# Spark takes JAVA_HOME's Java when that is set, whatever else there is.
found() { if [ -n "${JAVA_HOME:-}" ]; then good "$JAVA_HOME/bin/java"; else good "$(command -v java || true)"; fi; }
found && exit 0
if [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "No Java 17 or newer found: installing Debian's default-jre-headless ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null && found && exit 0
fi
cat >&2 <<'MESSAGE'
Spark needs a Java runtime, version 17 or newer, and none was found (an older one does not do). Install one, then
run make again:
  Debian, Ubuntu   sudo apt-get install default-jre-headless
  Fedora           sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17   (and set JAVA_HOME as brew says)
If Java is installed somewhere unusual, set JAVA_HOME to its folder; if JAVA_HOME points at an older one, unset it.
MESSAGE
exit 1
