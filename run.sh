#!/usr/bin/env bash
# Installs what it needs, builds trireme, compares Megatron SP, Ulysses + ZeRO-3 and the hybrid on
# 8 x H100, and writes the study's report.
#
#   ./run.sh [FOLDER]    FOLDER: where the report goes; build/report without it
set -euo pipefail

if [[ $# -gt 1 || "${1:-}" == -* ]]; then
  echo "usage: $0 [FOLDER]" >&2
  exit 2
fi
folder="$(realpath -m "${1:-"$(dirname "${BASH_SOURCE[0]}")/build/report"}")"
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/packages.sh
source scripts/build.sh

install_packages "${build_packages[@]}"
build release trireme

study=reports/ulysses-vs-megatron/study.yaml
build/release/bin/trireme compare "$study"
build/release/bin/trireme report "$study" -o "$folder"
echo "the report is in $folder" >&2
