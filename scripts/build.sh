# Sourced by run.sh, test.sh and .ci/run, in the root of the repository: build PRESET [TARGET...].

# Configures and builds a preset. Prints nothing but one line on stderr, unless it fails: then the
# output of the step that failed.
build() {
  local preset="$1"
  shift
  local log="build/$preset.log"
  mkdir -p build
  echo "building build/$preset/bin" >&2
  if ! cmake --preset "$preset" >"$log" 2>&1 ||
    ! cmake --build --preset "$preset" ${@:+--target "$@"} >"$log" 2>&1; then
    cat "$log" >&2
    echo "error: the build of preset $preset failed; its output is above and in $log." >&2
    return 1
  fi
}
