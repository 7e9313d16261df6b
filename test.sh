#!/usr/bin/env bash
# Installs what it needs, builds trireme and runs every test but the slow ones
# (those: ctest --test-dir build/release -L slow).
set -euo pipefail

if [[ $# -gt 0 ]]; then
  echo "usage: $0" >&2
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/packages.sh
source scripts/build.sh

install_packages "${build_packages[@]}"
build release

# ctest's own summary, with the names of the skipped tests, comes last; all output when one failed.
log=build/release.tests.log
if ctest --preset release --parallel "$(nproc)" >"$log" 2>&1; then
  echo "$(grep --count '\*\*\*Skipped' "$log" || true) tests skipped"
  sed -n '/^[0-9]*% tests passed/,$p' "$log"
else
  cat "$log"
  exit 1
fi
