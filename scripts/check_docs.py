#!/usr/bin/env python3
"""Checks that README.md and docs/**/*.md name only files that exist.

Looked at: relative links and images, and paths in `code` whose first part is a file or folder of
the repository's root. Fenced blocks are commands and output, and are left out, as are paths below
build/ and patterns with <, {, * or $. Prints file:line for every path that is missing and exits 1.
--self-test checks the script itself.
"""

import re
import sys
import tempfile
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"^(?:\./)?([\w.\-]+(?:/[\w.\-]+)*/?)(?::\d+)?$")
ROOTS = ("sim", "calibrate", "models", "topologies", "reports", "tests", "docs", "scripts", "cmake",
         ".ci")
# A bare word is a path when it ends like a file of the repository's root.
FILE_OF_ROOT = re.compile(r"^(?:[A-Z]\w*\.(?:txt|json|md)|\w+\.sh|\.clang-\w+|\.gitignore|LICENSE)$")


def missing(root, file, text):
    """(line number, path) of each path in `text`, the content of `file`, that does not exist."""
    found = []
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            continue
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"^[a-z]+:", target) or target.startswith("#"):
                continue
            if not (file.parent / target.split("#")[0]).exists():
                found.append((number, target))
        for code in CODE.findall(line):
            match = PATH.match(code)
            if not match:
                continue
            path = match.group(1)
            named = path.split("/")[0] in ROOTS and "/" in path or FILE_OF_ROOT.match(path)
            if named and not (root / path).exists():
                found.append((number, path))
    return found


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "docs").mkdir()
        (root / "sim").mkdir()
        (root / "sim" / "here.h").touch()
        (root / "run.sh").touch()
        cases = [  # line of docs/a.md, number of missing paths
            ("[a](../sim/here.h) and [b](../sim/here.h#top)", 0),
            ("[a](../sim/gone.h)", 1),
            ("![picture](gone.png)", 1),
            ("[a](https://example.org/x) [b](#section)", 0),
            ("`sim/here.h`, `sim/here.h:12`, `sim/`", 0),
            ("`sim/gone.h` and `docs/gone.md`", 2),
            ("`run.sh` and `./run.sh`", 0),
            ("`test.sh`", 1),
            ("`sim/<module>/x.cpp`, `build/release/bin`, `a/b`, `workload.sequence`", 0),
            ("```\nsim/gone.h `sim/gone.h`\n```", 0),
            ("```\nx\n```\n`sim/gone.h`", 1),
        ]
        failed = 0
        for text, count in cases:
            found = missing(root, root / "docs" / "a.md", text)
            if len(found) != count:
                failed += 1
                print(f"self-test: {text!r}: found {found}, expected {count}")
        return failed


def main(arguments):
    if arguments == ["--self-test"]:
        return 1 if self_test() else 0
    if arguments:
        print(f"usage: {Path(__file__).name} [--self-test]", file=sys.stderr)
        return 2
    root = Path(__file__).resolve().parent.parent
    files = [root / "README.md"] if (root / "README.md").exists() else []
    files += sorted((root / "docs").rglob("*.md"))
    failed = 0
    for file in files:
        for number, path in missing(root, file, file.read_text(encoding="utf-8")):
            failed += 1
            print(f"{file.relative_to(root)}:{number}: names {path}, which does not exist")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
