# Sourced by run.sh, test.sh and .ci/run: install_packages.

# What the build and the tests use, as Debian 12 and Ubuntu 24.04 name it.
readonly build_packages=(
  g++ cmake ninja-build git python3
  libfmt-dev libyaml-cpp-dev libboost-dev libboost-program-options-dev libeigen3-dev nlohmann-json3-dev
  libpugixml-dev libtbb-dev zlib1g-dev
  libopenmpi-dev openmpi-bin
  catch2 libbenchmark-dev
)

# The packages of the arguments that dpkg does not know as installed, one a line.
missing_packages() {
  local package
  for package in "$@"; do
    if [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      echo "$package"
    fi
  done
}

# Installs the packages of the arguments that are missing. Asks the network only when one is.
install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "error: this installs packages on Debian 12 and Ubuntu 24.04 only; elsewhere install a" \
      "C++20 compiler, CMake 3.25, Ninja, git, Python 3, fmt, yaml-cpp, Boost.Program_options," \
      "Eigen, nlohmann-json, pugixml, oneTBB, zlib, Catch2, Google Benchmark and OpenMPI and build as docs/building.md says." >&2
    return 1
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [[ ${#missing[@]} -eq 0 ]]; then
    return
  fi
  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "error: installing ${missing[*]} needs root or sudo; run as root:" \
        "apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}" >&2
  local log
  log="$(mktemp)"
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes \
      --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "error: apt-get could not install ${missing[*]}; its output is above." >&2
    return 1
  fi
  rm -f "$log"
}
