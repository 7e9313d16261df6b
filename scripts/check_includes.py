#!/usr/bin/env python3
"""Reads the #include lines of every tracked C++ file and refuses a new direction between modules.

The directions are those of docs/architecture.md, "Includes follow the data". Run from anywhere;
prints file:line for every refused include and exits 1, or prints nothing and exits 0.
--self-test checks the script itself.
"""

import re
import subprocess
import sys
from pathlib import Path

# Module -> the modules that it may include besides itself. Reaching through another module's
# headers counts as well, so the table lists what is allowed, not a transitive closure.
ALLOWED = {
    "units": [],
    "core": ["units"],
    "cost": ["units"],
    "config": ["core", "units", "cost"],  # a profile file is read into cost's parameter structs
    "program": ["core", "units"],
    "plan": ["program", "config", "core", "units"],
    "ledger": ["core", "units"],
    "engine": ["program", "cost", "ledger", "core", "units"],
    "engine/execute": ["engine", "program", "cost", "ledger", "core", "units"],
    "study": ["config", "plan", "program", "engine", "engine/execute", "cost", "ledger", "core",
              "units"],
    "validation": ["study", "engine", "plan", "config", "ledger", "core", "units"],
    "report": ["ledger", "core", "units"],
    "cli": ["study", "validation", "report", "ledger", "engine/execute", "plan", "config", "core",
            "units"],
}

# Outside sim: the folder and the modules of sim that it may include.
ALL_MODULES = list(ALLOWED)
ALLOWED_OUTSIDE = {
    "calibrate": ["cost", "config", "core", "units", "program", "plan", "engine",
                  "engine/execute"],
    "tests": ALL_MODULES,
}

# Module of calibrate -> the modules of calibrate that it may include besides itself.
ALLOWED_IN_CALIBRATE = {
    "measurement": [],
    "harness": ["measurement"],
    "import": ["measurement"],
    "fit": ["measurement"],
    "probe": ["harness", "measurement"],
    "probe/cpu": ["harness"],
    "probe/gpu": ["probe", "harness", "measurement"],
    "cli": ["measurement", "harness", "import", "fit", "probe", "probe/cpu", "probe/gpu"],
}

# Heavy headers and the folders that may include them.
HEAVY = {
    r"yaml-cpp/": ["sim/config"],
    r"boost/program_options": ["sim/cli", "calibrate/cli"],
    r"(Eigen|unsupported/Eigen)/": ["sim/engine/execute", "calibrate/fit", "calibrate/probe/cpu"],
    r"nlohmann/": ["sim/config", "sim/report", "calibrate/import", "tests"],
    r"(catch2/|tests/)": ["tests"],
    r"benchmark/": ["tests/bench"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')


def folder_is(path, folder):
    return path.startswith(folder + "/")


def owner(path):
    """The module of a file of sim, or its top folder."""
    parts = path.split("/")
    if parts[0] == "sim" and len(parts) > 2:
        inner = "/".join(parts[1:3])  # a module inside another's folder has a row of its own
        return inner if inner in ALLOWED else parts[1]
    return parts[0]


def calibrate_module(path):
    """The module of a file of calibrate."""
    parts = path.split("/")
    inner = "/".join(parts[1:3])
    return inner if inner in ALLOWED_IN_CALIBRATE else parts[1]


def refusal_in_calibrate(path, header):
    """Why a file of calibrate may not include another of it; None when it may."""
    source, target = calibrate_module(path), calibrate_module(header)
    if target not in ALLOWED_IN_CALIBRATE:
        return f'"{header}": calibrate/{target} is no module'
    if source not in ALLOWED_IN_CALIBRATE:
        return f"calibrate/{source} is no module: give it a row in scripts/check_includes.py"
    allowed = [source] + ALLOWED_IN_CALIBRATE[source]
    if target not in allowed:
        return f'"{header}": {source} may include {", ".join(sorted(allowed))}, not {target}'
    return None


def refusal(path, header, quoted):
    """Why `path` may not include `header`; None when it may."""
    for pattern, homes in HEAVY.items():
        if re.match(pattern, header) and not any(folder_is(path, home) for home in homes):
            return f"<{header}> belongs in {' and '.join(homes)} only"
    parts = header.split("/")
    if quoted and parts[0] not in ("sim", "tests", "calibrate"):
        return f'"{header}": write the path from the root of the repository'
    if parts[0] == "calibrate":
        if folder_is(path, "calibrate"):
            return refusal_in_calibrate(path, header)
        if folder_is(path, "tests"):
            return None
        return f'"{header}": sim never includes calibrate; they meet in a profile file'
    if parts[0] != "sim":
        return None
    target = owner(header)
    if target not in ALLOWED:
        return f'"{header}": sim/{target} is no module'
    source = owner(path)
    if folder_is(path, "sim"):
        if source not in ALLOWED:
            return f"sim/{source} is no module: give it a row in scripts/check_includes.py"
        allowed = [source] + ALLOWED[source]
    else:
        allowed = ALLOWED_OUTSIDE.get(source, [])
    if target not in allowed:
        return f'"{header}": {source} may include {", ".join(sorted(allowed))}, not {target}'
    return None


def refusals(path, text):
    """(line number, reason) for each refused include of one file."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            reason = refusal(path, match.group(1) or match.group(2), match.group(2) is not None)
            if reason:
                found.append((number, reason))
    return found


def self_test():
    cases = [  # path, line, refused
        ("sim/core/a.h", '#include "sim/units/units.h"', False),
        ("sim/units/a.h", '#include "sim/core/error.h"', True),
        ("sim/config/a.cpp", '#include "sim/cost/machine_costs.h"', False),
        ("sim/cost/a.cpp", '#include "sim/config/profile_spec.h"', True),
        ("sim/cost/a.cpp", '#include "sim/core/error.h"', True),
        ("sim/plan/a.cpp", '#include "sim/cost/machine_costs.h"', True),
        ("sim/program/a.cpp", '#  include "sim/plan/plan.h"', True),
        ("sim/engine/a.cpp", '#include "sim/report/table.h"', True),
        ("sim/engine/a.cpp", '#include "sim/engine/execute/executor.h"', True),
        ("sim/engine/execute/a.cpp", '#include "sim/engine/execute/executor.h"', False),
        ("sim/engine/execute/a.cpp", '#include "sim/engine/sizes.h"', False),
        ("sim/engine/execute/a.cpp", '#include "sim/plan/plan.h"', True),
        ("sim/study/a.cpp", '#include "sim/engine/execute/executor.h"', False),
        ("sim/study/a.cpp", '#include "sim/engine/sizes.h"', False),
        ("sim/report/a.cpp", '#include "sim/engine/sizes.h"', True),
        ("sim/cli/main.cpp", '#include "sim/study/evaluate.h"', False),
        ("sim/cli/main.cpp", '#include "error.h"', True),
        ("sim/cli/main.cpp", '#include "sim/nowhere/a.h"', True),
        ("sim/newcomer/a.cpp", '#include "sim/units/units.h"', True),
        ("sim/engine/a.cpp", '#include "calibrate/fit/a.h"', True),
        ("calibrate/cli/a.cpp", '#include "calibrate/fit/a.h"', False),
        ("calibrate/fit/a.cpp", '#include "calibrate/harness/a.h"', True),
        ("calibrate/probe/gpu/a.cpp", '#include "calibrate/probe/a.h"', False),
        ("calibrate/probe/cpu/a.cpp", '#include "calibrate/probe/gpu/a.h"', True),
        ("calibrate/newcomer/a.cpp", '#include "calibrate/fit/a.h"', True),
        ("sim/config/a.cpp", "#include <yaml-cpp/eventhandler.h>", False),
        ("sim/cli/a.cpp", "#include <yaml-cpp/yaml.h>", True),
        ("sim/configuration.cpp", "#include <yaml-cpp/yaml.h>", True),
        ("sim/cli/a.cpp", "#include <boost/program_options.hpp>", False),
        ("sim/report/a.cpp", "#include <boost/program_options.hpp>", True),
        ("sim/engine/execute/a.cpp", "#include <Eigen/Core>", False),
        ("sim/engine/a.cpp", "#include <Eigen/Core>", True),
        ("sim/report/a.cpp", "#include <nlohmann/json.hpp>", False),
        ("tests/cli/a_test.cpp", "#include <nlohmann/json.hpp>", False),
        ("sim/cli/a.cpp", "#include <nlohmann/json.hpp>", True),
        ("sim/cli/a.cpp", '#include "tests/catch.h"', True),
        ("tests/unit/core/a_test.cpp", '#include "sim/report/table.h"', False),
        ("calibrate/fit/a.cpp", '#include "sim/report/table.h"', True),
        ("sim/core/a.h", "#include <vector>", False),
        ("sim/core/a.h", '// #include "sim/core/version.h"', False),
    ]
    failed = 0
    for path, line, refused in cases:
        found = refusals(path, "\n" + line)
        if (found != []) != refused or (refused and found[0][0] != 2):
            failed += 1
            print(f"self-test: {path}: {line}: got {found}, refused should be {refused}")
    return failed


def main(arguments):
    if arguments == ["--self-test"]:
        return 1 if self_test() else 0
    if arguments:
        print(f"usage: {Path(__file__).name} [--self-test]", file=sys.stderr)
        return 2
    root = Path(__file__).resolve().parent.parent
    files = subprocess.run(
        ["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"],
        cwd=root, check=True, capture_output=True, text=True).stdout.split()
    failed = 0
    for path in files:
        for number, reason in refusals(path, (root / path).read_text(encoding="utf-8")):
            failed += 1
            print(f"{path}:{number}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
