"""The datapath beside two copies of the same bytes and nothing else, in one thread: bytes per cycle, as a ratio.

Two copies are the least that a switch with a pool of packets does with a frame. Both are done by bench/stages.c, in turn, from memory that is
in the L2 cache ("warm") or was flushed from all caches ("cold"); the buffer between the two copies stays warm. Of each process the medians
over its bursts count, so that whoever else had the CPU meanwhile does not.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.ratios import spread_text  # noqa: E402

# name, frame, receive buffer, bursts
CASES = [
    ("64 KiB into 4 KiB buffers", 65535, 4096, 400),
    ("64 KiB into one buffer", 65535, 65547, 400),
]


def measure(stages, frame, buffer, bursts, cache):
    run = subprocess.run([stages, str(frame), str(buffer), str(bursts), "pass", *(["cold"] * (cache == "cold"))], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    parser.add_argument("--repeat", type=int, default=9)
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", arguments.build, "--quiet", "bench/stages"], check=True)
    cells = {(case, cache): [] for case in CASES for cache in ("warm", "cold")}
    for _ in range(arguments.repeat):
        for (name, *words), cache in cells:
            cells[((name, *words), cache)].append(measure(f"{arguments.build}/bench/stages", *words, cache))
    print("| frame | memory | cycles: ringway, two copies | bytes per cycle to those of two copies |\n|---|---|---|---|")
    for ((name, *_), cache), runs in cells.items():
        ratios = [run["cycles_two_copies"] / run["cycles"] for run in runs]
        cycles = ", ".join(f"{statistics.median(run[key] for run in runs):.0f}" for key in ("cycles", "cycles_two_copies"))
        print(f"| {name} | {cache} | {cycles} | {spread_text(ratios)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
