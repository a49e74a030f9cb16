"""Counts instructions per frame of each stage of the datapath and writes docs/instructions.md.

Callgrind's counts are repeatable for a binary, whatever else the machine does; so a change that makes a stage longer shows here,
and its commit says why. Only libc's memcpy is chosen by what the CPU can do, so it is told to do without what callgrind counts by
the byte. The rings are driven by bench/stages.c, in bursts of 32 frames, or as many as a ring has room for.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# name, frame, receive buffer, words of bench/stages
CASES = [
    ("64 B", 64, 2048),
    ("256 B", 256, 2048),
    ("1518 B", 1518, 2048),
    ("64 KiB into 4 KiB buffers", 65535, 4096),
    ("64 KiB into 1.5 KiB buffers", 65535, 1536),
    ("64 B, packed", 64, 2048, "packed"),
    ("1518 B, packed", 1518, 2048, "packed"),
    ("64 KiB into 4 KiB buffers, packed", 65535, 4096, "packed"),
    ("1518 B, checksum left to the receiver", 1518, 2048, "pass"),
    ("1518 B, checksum finished", 1518, 2048, "finish"),
    ("64 KiB, cut into 45 segments", 65535, 2048, "cut"),
    ("the same, checksums finished", 65535, 2048, "cut-finish"),
]
STAGES = ["virtq_collect", "switch_forward", "virtq_deliver", "virtq_complete", "virtq_calls_look"]
ROUNDS = 400


def count(stages, frame, buffer, *words):
    """Inclusive instructions per frame, by function."""
    with tempfile.NamedTemporaryFile(prefix="callgrind.") as out:
        run = subprocess.run(
            ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out.name}", stages, str(frame),
             str(buffer), str(ROUNDS), *words],
            check=True, capture_output=True, text=True, env={**os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS,-FSRM"})
        report = json.loads(run.stdout)
        frames = report["frames"]
        if report["delivered"] != frames:
            sys.exit(f"instructions: of {frames} frames {report['delivered']} were delivered")
        listing = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", out.name], check=True,
                                 capture_output=True, text=True).stdout
    found = {}
    for line in listing.splitlines():
        match = re.match(r"\s*([\d,]+)\s.*:(\w+)(?:'\d+)? ?(?:\[.*\])?$", line)
        if match and match.group(2) in STAGES:
            instructions = int(match.group(1).replace(",", "")) / frames
            found[match.group(2)] = max(found.get(match.group(2), 0), instructions)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    subprocess.run(["ninja", "-C", arguments.build, "--quiet", "bench/stages"], check=True)

    compiler = subprocess.run(["cc", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    lines = [
        "# Instructions per frame",
        "",
        "Made by `make bench-instructions`: callgrind on `bench/stages.c`, bursts of 32 (of large frames what a ring has room for), ring of 256, split",
        "unless it is said, unicast, all in one thread.",
        f"Compiler: {compiler}. `switch_forward` is given without the `virtq_deliver` in it.",
        "",
        "| frame | " + " | ".join(f"`{stage}`" for stage in STAGES) + " | all |",
        "|---" * (len(STAGES) + 2) + "|",
    ]
    for name, *case in CASES:
        found = count(os.path.join(arguments.build, "bench/stages"), *case)
        found["switch_forward"] -= found["virtq_deliver"]
        figures = [found.get(stage, 0) for stage in STAGES]
        lines.append(f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in figures) + f" | {sum(figures):.0f} |")
        print(lines[-1], flush=True)
    with open("docs/instructions.md", "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
