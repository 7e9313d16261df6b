#!/usr/bin/env python3
"""Fits the profiles of topologies/profiles to public measurements, byte for byte.

    scripts/fit_profiles.py --bin build/release/bin --data FOLDER

FOLDER holds the tables that docs/profiles.md lists. A profile is written from its template in
scripts/profiles: a line `key: fitted NAME` becomes the coefficient that fit NAME found at the same
place, all others stay as they are. `--check` compares instead of writing.
"""

import argparse
import csv
import io
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "scripts" / "profiles"
PROFILES = ROOT / "topologies" / "profiles"

ATTENTION = ["kernel", "dtype", "pass", "causal", "head_dim", "heads", "kv_heads", "batch", "seq", "time_ms"]
PRODUCTS = ["dtype", "m", "n", "k", "time_us"]
COLLECTIVES = ["collective", "n_gpus", "gpus_per_node", "size_bytes", "dtype", "oop_time_us"]
HALF = ("bf16", "bfloat16", "fp16", "fp16/bf16")


def rows_of(data, table):
    with open(data / table, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def attention(data, table, keep, counts_masked=False):
    """Rows of one GPU's kernel. Where only TFLOP/s are printed, seconds follow from the operations
    that the table counts: backward 2.5 times forward, causal half of it unless `counts_masked`."""
    rows = []
    for row in rows_of(data, table):
        if row["pass"] not in ("fwd", "bwd") or row["dtype"] not in HALF or not keep(row):
            continue
        row["causal"] = "1" if row["causal"] == "see note" else row["causal"]
        if not row["time_ms"]:
            batch, heads, tokens, head_dim = (int(row[key]) for key in ("batch", "heads", "seq", "head_dim"))
            work = 4 * batch * heads * tokens * tokens * head_dim * (2.5 if row["pass"] == "bwd" else 1)
            work *= 0.5 if row["causal"] == "1" and not counts_masked else 1
            row["time_ms"] = f"{work / float(row['tflops']) / 1e9:.6g}"
        row["dtype"] = "bf16"
        rows.append([row[key] for key in ATTENTION])
    return ATTENTION, rows


def products(data, table, keep):
    rows = []
    for row in rows_of(data, table):
        if row["dtype"] in HALF and keep(row):
            row["dtype"] = "bf16"
            rows.append([row[key] for key in PRODUCTS])
    return PRODUCTS, rows


def collectives(data, table, keep=lambda row: True):
    """Where only bus bandwidth is printed, seconds follow from it as nccl-tests defines it."""
    rows = []
    for row in rows_of(data, table):
        if not keep(row) or row["size_bytes"] == "0":
            continue
        if not row["oop_time_us"]:
            ranks = int(row["n_gpus"])
            share = {"all_reduce": 2 * (ranks - 1) / ranks, "sendrecv": 1}.get(row["collective"], (ranks - 1) / ranks)
            row["oop_time_us"] = f"{int(row['size_bytes']) * share / float(row['oop_busbw_GBps']) / 1e3:.6g}"
            row["dtype"] = "half"
        rows.append([row[key] for key in COLLECTIVES])
    return COLLECTIVES, rows


def on(gpu):
    return lambda row: row["gpu"] == gpu and row["dtype"] == "half" and row["nccl_version"] != "2.27.5"


def node_of(gpu):
    return lambda data: collectives(data, "nccl/nccl_aiconfigurator.csv", on(gpu))


def logs(*names, keep=lambda row: True):
    def read(data):
        header, rows = COLLECTIVES, []
        for name in names:
            rows += collectives(data, f"nccl/csv/{name}.csv", keep)[1]
        return header, rows

    return read


def kernel(table, name, gpu="", counts_masked=False, more=lambda row: True):
    return lambda data: attention(
        data,
        f"kernels/{table}.csv",
        lambda row: row["kernel"] == name and gpu in row["gpu"] and more(row),
        counts_masked,
    )


def long_enough(row):
    return int(row["seq"]) >= 2048


H100_NODES = logs(
    "h100_n10_g8_multi5",
    "h100_n10_g1_multi5",
    "h100_n2_g1_pair_a2a_sendrecv",
    "h100_n2_g2_pair_a2a_sendrecv",
    "h100_n2_g8_pair_a2a_sendrecv",
)
H100_PAIRS = logs("h100_n1_g8_h002_multi5", "h100_n1_g4_h002_multi5", keep=lambda row: row["collective"] == "sendrecv")
SOPHIA = logs("sophia_a100_n2_ok_all_gather", "sophia_a100_n2_ok_all_reduce", "sophia_a100_n2_ok_alltoall")


def together(data):
    return collectives(
        data, "nccl/nccl_together_b200_scaling.csv", lambda row: "NCCL_ALGO=Ring" in row["nic"] and row["oop_busbw_GBps"]
    )


# Name of the fit, GPU, source of its coefficients, date of the measurements where it is known, tables, options.
FITS = [
    ("a100-gemm", "a100-sxm-80", "vidur", "", [lambda d: products(d, "kernels/gemm_vidur.csv", lambda r: r["gpu"].startswith("A100"))], ["--least-rows", "1024", "--least-width", "1024"]),
    ("a100-flash2", "a100-sxm-80", "aiconfigurator", "", [kernel("attn_aiconfigurator_a100_sxm", "vllm_flash_attn (vllm 0.14.0)", more=long_enough)], ["--multiprocessors", "108", "--kernel", "vllm_flash_attn (vllm 0.14.0)=flash2"]),
    ("a100-node", "a100-sxm-80", "aiconfigurator", "", [node_of("NVIDIA A100-SXM4-80GB")], ["--nccl", "2.27.3"]),
    ("a100-nodes", "a100-sxm-80", "alcf-nccl-tests", "", [node_of("NVIDIA A100-SXM4-80GB"), SOPHIA], ["--nic-rate", "200 Gbit/s", "--accept-slow-fabric"]),
    ("h100-gemm", "h100-sxm", "vidur", "", [lambda d: products(d, "kernels/gemm_vidur.csv", lambda r: r["gpu"].startswith("H100"))], ["--least-rows", "1024", "--least-width", "1024"]),
    ("h100-flash2", "h100-sxm", "shah2024-flash3", "", [kernel("attn_fa3_paper", "FlashAttention-2")], ["--multiprocessors", "132", "--kernel", "FlashAttention-2=flash2"]),
    ("h100-flash3", "h100-sxm", "shah2024-flash3", "", [kernel("attn_fa3_paper", "FlashAttention-3")], ["--multiprocessors", "132", "--kernel", "FlashAttention-3=flash3"]),
    ("h100-cudnn", "h100-sxm", "shah2024-flash3", "", [kernel("attn_fa3_paper", "cuDNN")], ["--multiprocessors", "132", "--kernel", "cuDNN=cudnn"]),
    ("h100-node", "h100-sxm", "aiconfigurator", "", [node_of("NVIDIA H100 80GB HBM3")], ["--nccl", "2.29.2"]),
    ("h100-nodes", "h100-sxm", "nccl-tests-cluster", "2026-01-29", [node_of("NVIDIA H100 80GB HBM3"), H100_NODES, H100_PAIRS], ["--nic-rate", "400 Gbit/s", "--accept-slow-fabric", "--nccl", "2.29.2"]),
    ("h200-gemm", "h200-sxm", "aiconfigurator", "", [lambda d: products(d, "kernels/gemm_aiconfigurator_h200_sxm_vllm.csv", lambda r: float(r["time_us"]) >= 1000), lambda d: products(d, "kernels/gemm_aiconfigurator_h200_sxm_trtllm.csv", lambda r: float(r["time_us"]) >= 1000)], []),
    ("h200-flash3", "h200-sxm", "aiconfigurator", "", [kernel("attn_aiconfigurator_h200_sxm", "vllm_flash_attn_fa3 (vllm 0.24.0)", more=long_enough)], ["--multiprocessors", "132", "--kernel", "vllm_flash_attn_fa3 (vllm 0.24.0)=flash3"]),
    ("h200-node", "h200-sxm", "aiconfigurator", "", [node_of("NVIDIA H200")], ["--nccl", "2.29.2"]),
    ("b200-gemm", "b200-sxm", "simumax-b200", "", [lambda d: products(d, "kernels/gemm_simumax.csv", lambda r: r["gpu"] == "B200")], ["--least-rows", "1024", "--least-width", "1024"]),
    ("b200-node", "b200-sxm", "aiconfigurator", "", [node_of("NVIDIA B200")], ["--nccl", "2.29.2"]),
    ("b200-nodes", "b200-sxm", "together-nccl-tests", "2026-05-12", [node_of("NVIDIA B200"), together], ["--nic-rate", "400 Gbit/s", "--accept-slow-fabric"]),
]


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def fit(binary, data, work, name, gpu, source, date, tables, options):
    """The text of the profile that a fit writes, and what it says of its errors."""
    folder = work / name
    folder.mkdir()
    files = []
    for number, read in enumerate(tables):
        header, rows = read(data)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        files.append(folder / f"{name}-{number}.csv")
        files[-1].write_text(text.getvalue(), encoding="utf-8")
    # What import states, and what fit asks for.
    stated = ["--source", source] + (["--date", date] if date else [])
    if "--nccl" in options:
        at = options.index("--nccl")
        stated += options[at : at + 2]
        options = options[:at] + options[at + 2 :]
    run([binary / "trireme-calibrate", "import", *files, *stated, "-o", folder / "measured"])
    profile = folder / "profile.yaml"
    report = run([binary / "trireme-calibrate", "fit", folder / "measured", "--gpu", gpu, *options, "-o", profile])
    return profile.read_text(encoding="utf-8"), report


def places(text):
    """Line number, indentation and place of each key: `attention.flash3.head_dims[128].forward.E`."""
    stack = []
    for number, line in enumerate(text.splitlines()):
        found = re.match(r"( *)(- )?([A-Za-z_0-9]+):(.*)", line)
        if not found or line.lstrip().startswith("#"):
            continue
        indent = len(found[1]) + (2 if found[2] else 0)
        while stack and stack[-1][0] >= indent:
            stack.pop()
        key = found[3]
        if found[2]:  # an item of a list is named by its first value
            while stack and stack[-1][0] >= len(found[1]):
                stack.pop()
            stack.append((len(found[1]), f"[{found[4].strip()}]"))
        stack.append((indent, key))
        yield number, indent, ".".join(part for _, part in stack).replace(".[", "[")


def fitted_at(text, place):
    lines = text.splitlines()
    for number, indent, found in places(text):
        if found == place:
            block = [lines[number].split(":", 1)[1]]
            for line in lines[number + 1 :]:
                if line.strip() and len(line) - len(line.lstrip()) <= indent and not line.startswith(" " * indent + "-"):
                    break
                block.append(line)
            return "\n".join(block)
    return None


def fill(template, fits):
    lines = template.splitlines()
    for number, _, place in list(places(template)):
        found = re.search(r": fitted ([a-z0-9-]+)$", lines[number])
        if not found:
            continue
        value = fitted_at(fits[found[1]], place)
        if value is None:
            sys.exit(f"{found[1]} did not fit {place}")
        lines[number] = lines[number][: found.start() + 1] + value
    return "\n".join(lines) + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    options.add_argument("--data", type=pathlib.Path, required=True)
    options.add_argument("--report", action="store_true", help="print what each fit says of its errors")
    options.add_argument("--check", action="store_true", help="compare, write nothing; 1 when a file differs")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as work:
        fits = {}
        for name, *rest in FITS:
            fits[name], report = fit(chosen.bin, chosen.data, pathlib.Path(work), name, *rest)
            if chosen.report:
                print(f"== {name}\n{report}")
    differs = False
    for template in sorted(TEMPLATES.glob("*.yaml")):
        text = fill(template.read_text(encoding="utf-8"), fits)
        target = PROFILES / template.name
        if chosen.check:
            if target.read_text(encoding="utf-8") != text:
                print(f"{target.relative_to(ROOT)} differs")
                differs = True
        else:
            target.write_text(text, encoding="utf-8")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
