#!/usr/bin/env python3
"""Calibrates this machine's processors and predicts steps of sizes that were not measured.

Ranks of MPI take the place of GPUs. Each round measures the points of `trireme-calibrate run` and
times the step of every plan with `trireme verify --time`, so that other work on the machine slows
both; then one profile is fitted to all rounds, and `trireme compare` predicts each step. Prints a
row for each plan: the median over rounds, its spread, the prediction and its error. Exits 1 when
the median of the errors is above 20 %, or when two plans whose measured spreads do not overlap are
predicted in the other order; 77 instead where other work had the cores before the rounds, as steps
wait for it longer than points do.

  scripts/end_to_end.py --bin build/release/bin
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_MEDIAN_ERROR = 0.20
# Of the cores' time, by other work. Above it a rank often waits for its core, and every rank of an
# exchange with it.
MOST_BUSY = 0.20

# Neither its widths nor its lengths are those that the probes measure. Without recomputation
# Megatron and data parallelism take the same time, as matrix products are nearly all of it.
STUDY = """version: 1
model:
  name: small
  layers: 2
  hidden: 384
  attention: {{heads: 6, kv_heads: 6, head_dim: 64, bias: none, rotary: false}}
  mlp: {{kind: gelu, width: 1536}}
  norm: layernorm
  vocabulary: none
cluster: {{use: {cluster}, profile: {profile}}}
workload: {{sequence: {sequence}, micro_batch: 1, global_batch: {ranks}, causal: true}}
plans:
  - {{name: megatron, recompute: full, tensor_parallel: {{degree: {ranks}, sequence: true}}}}
  - {{name: ulysses-zero3, recompute: full, ulysses: {ranks},
      zero: {{stage: 3, gradient_type: bf16}}}}
  - {{name: data-zero1, data_parallel: {ranks}, zero: {{stage: 1, gradient_type: bf16}}}}
"""

# Those of what the plans' steps are made of.
PROBES = ("launch", "gemm", "attention", "memory-bound", "collectives")


class Failed(Exception):
    pass


def run(command):
    environment = dict(os.environ,
                       OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(part) for part in command],
                          env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def on_ranks(options, command):
    return run([options.mpirun, "--oversubscribe", "-n", options.ranks, *command])


def busy_share():
    """Of the cores' time, while nothing of this script runs; 0 where the system does not say."""
    def busy_and_all():
        try:
            text = Path("/proc/stat").read_text(encoding="utf-8")
        except OSError:
            return 0, 0
        ticks = [int(word) for word in text.splitlines()[0].split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # less idle and waiting for a disk
    busy, everything = busy_and_all()
    time.sleep(2)
    busy_now, everything_now = busy_and_all()
    return (busy_now - busy) / max(everything_now - everything, 1)


class Plan:
    def __init__(self, name, sequence):
        self.name = name
        self.sequence = sequence
        self.seconds = []  # one median for each round
        self.predicted = None

    def measured(self):
        return statistics.median(self.seconds)

    def error(self):
        return self.predicted / self.measured() - 1


def fit(options, measured, profile):
    run([options.bin / "trireme-calibrate", "fit", *measured, "--gpu", measured[0] / "gpu.yaml",
         "--accept-slow-fabric", "-o", profile])


def study_of(options, folder, sequence, measured, profile):
    study = folder / f"study-{sequence}.yaml"
    study.write_text(STUDY.format(cluster=measured[0] / "cluster.yaml", profile=profile,
                                  sequence=sequence, ranks=options.ranks), encoding="utf-8")
    return study


def measure(options, folder, sequences):
    """The steps of every plan at every length, and the cores' share that other work had."""
    plans = {}
    busy = []
    measured = []
    profile = folder / "profile.yaml"
    for number in range(options.rounds):
        into = folder / f"round-{number + 1}"
        busy.append(busy_share())
        on_ranks(options, [options.bin / "trireme-calibrate", "run", "-o", into, "--device", "cpu",
                           "--grid", options.grid, "--time-per-point", options.time_per_point,
                           *(argument for name in PROBES for argument in ("--probe", name))])
        measured.append(into)
        fit(options, measured, profile)
        for sequence in sequences:
            study = study_of(options, folder, sequence, measured, profile)
            result = json.loads(on_ranks(options, [options.bin / "trireme", "verify", study,
                                                   "--full-size", "--time", "--transport", "mpi",
                                                   "--json"]))
            for row in result["rows"]:
                key = (row["plan"], sequence)
                plans.setdefault(key, Plan(*key)).seconds.append(row["step_time_seconds"]["median"])
    for sequence in sequences:
        study = study_of(options, folder, sequence, measured, profile)
        for row in json.loads(run([options.bin / "trireme", "compare", study, "--json"]))["rows"]:
            plans[row["plan"], sequence].predicted = row["step_time_seconds"]
    return list(plans.values()), statistics.median(busy)


def wrong_pairs(plans):
    """Pairs of one length whose measured rounds do not overlap, predicted in the other order."""
    told_apart = 0
    wrong = []
    for a, b in itertools.combinations(plans, 2):
        if a.sequence != b.sequence:
            continue
        fast, slow = sorted((a, b), key=Plan.measured)
        if max(fast.seconds) < min(slow.seconds):
            told_apart += 1
            if fast.predicted >= slow.predicted:
                wrong.append((fast, slow))
    return told_apart, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True, help="where trireme is")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2, help="no more than cores (2)")
    parser.add_argument("--rounds", type=int, default=3, help="of measuring (3)")
    parser.add_argument("--time-per-point", default="0.05 s", help="of a round (0.05 s)")
    parser.add_argument("--grid", default="full", choices=("full", "few"),
                        help="points that are measured (full)")
    parser.add_argument("--sequences", default="192,320", help="tokens of the steps (192,320)")
    parser.add_argument("--keep", type=Path, help="write measurements and profile here")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep.resolve() if options.keep else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            sequences = [int(text) for text in options.sequences.split(",")]
            plans, busy = measure(options, folder, sequences)
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 2
    print(f"{'plan':<16} {'tokens':>6} {'measured':>10} {'of rounds':>21} {'predicted':>10}  error")
    for plan in plans:
        spread = f"{1e3 * min(plan.seconds):.1f} .. {1e3 * max(plan.seconds):.1f} ms"
        print(f"{plan.name:<16} {plan.sequence:>6} {1e3 * plan.measured():>7.1f} ms {spread:>21} "
              f"{1e3 * plan.predicted:>7.1f} ms {100 * plan.error():+6.1f} %")
    median = statistics.median(abs(plan.error()) for plan in plans)
    told_apart, wrong = wrong_pairs(plans)
    print(f"median |error| {100 * median:.1f} % (at most {100 * MOST_MEDIAN_ERROR:.0f} %); "
          f"{told_apart} pairs of plans are told apart, {told_apart - len(wrong)} predicted in order")
    for fast, slow in wrong:
        print(f"wrong order at {fast.sequence} tokens: {fast.name} is faster than {slow.name}")
    if median <= MOST_MEDIAN_ERROR and not wrong:
        return 0
    if busy > MOST_BUSY:
        print(f"not judged: other work had {100 * busy:.0f} % of the cores' time")
        return 77
    return 1


if __name__ == "__main__":
    sys.exit(main())
