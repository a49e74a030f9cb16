"""Runs the fuzz targets (tests/fuzz) in turn, two at a time, from the corpus in the tree and what was found before.

What a target finds worth keeping goes to fuzz/corpus/TARGET, what makes it fail to fuzz/crashes, and the output of the
last run to fuzz/TARGET.log. `--keep` writes the smallest corpus that reaches as much back into the tree.
"""
import argparse
import filecmp
import glob
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build-fuzz")
FOUND = os.path.join(ROOT, "fuzz")
TREE = os.path.join(ROOT, "tests", "fuzz", "corpus")
ROUND_SECONDS = 600  # of one target, and then it is another's turn: there is something to see
INPUT_MAX = 4096  # FUZZ_INPUT_MAX
INPUT_SECONDS = 10  # for one input; more is a hang
MEMORY_MB = 2048
KEEP_BYTES = 1024  # longer inputs do not go into the tree
ENVIRONMENT = dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
                   ASAN_OPTIONS="quarantine_size_mb=16:detect_leaks=1")


def targets():
    return sorted(os.path.basename(path)[5:-2] for path in glob.glob(os.path.join(ROOT, "tests", "fuzz", "fuzz_*.c")))


def build():
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", BUILD, "-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined",
                        "-Db_lundef=false", "-Dc_args=-fsanitize=fuzzer-no-link"],
                       cwd=ROOT, env=dict(os.environ, CC="clang"), check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["ninja", "-C", BUILD, "--quiet", "fuzzers", "replays"], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout)


def program(kind, target):
    return os.path.join(BUILD, "tests", "fuzz", f"{kind}_{target}")


def folder(*parts):
    path = os.path.join(FOUND, *parts)
    os.makedirs(path, exist_ok=True)
    return path


class Run:
    """One target for some seconds.

    Leaks are looked for at its end: after each input it would take most of the time, because what RCU has freed is
    really freed later.
    """

    def __init__(self, target, seconds):
        self.target = target
        self.log = os.path.join(folder(), f"{target}.log")
        seeds = folder("seeds", target)
        subprocess.run([program("replay", target), "--write", seeds], check=True)
        corpus = [folder("corpus", target), seeds]
        if os.path.isdir(os.path.join(TREE, target)):
            corpus.append(os.path.join(TREE, target))
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [program("fuzz", target), f"-max_total_time={seconds:.0f}", f"-max_len={INPUT_MAX}",
                 f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MB}", "-handle_bus=0", "-print_funcs=0",
                 "-detect_leaks=0", "-print_final_stats=1",
                 f"-artifact_prefix={folder('crashes')}/{target}-", *corpus],
                stdout=log, stderr=log, env=ENVIRONMENT, cwd=FOUND)

    def result(self):
        """Waits; True if nothing was found."""
        code = self.process.wait()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            text = log.read()
        runs = re.search(r"number_of_executed_units: *(\d+)", text)
        reached = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
        figures = "{0} edges, {2} inputs kept".format(*reached[-1]) if reached else "no figures"
        print(f"  {self.target:10} {int(runs[1]) if runs else 0:>11,} runs, {figures}{', FAILED' if code else ''}",
              flush=True)
        if code:
            print("\n".join(text.splitlines()[-40:]))
        return code == 0


def turns_of(names, seconds, jobs):
    """How many turns each target has: such that all who work at a time end at the same time."""
    turns = math.ceil(seconds / ROUND_SECONDS)
    while turns * len(names) % jobs:
        turns += 1
    return turns


def fuzz(names, seconds, jobs, turns):
    waiting, running, good, started = list(names) * turns, [], True, time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Run(waiting.pop(0), seconds / turns))
        good &= running.pop(0).result()
        if turns > 1 and len(waiting) % len(names) == 0 and waiting:
            print(f"[{time.monotonic() - started:5.0f} s] {len(waiting) // len(names)} turns of each to go", flush=True)
    return good


def keep(names):
    """The fewest short inputs that reach the code that all do, however often; seeds are run in any case."""
    for target in names:
        with tempfile.TemporaryDirectory() as smallest:
            sources = [path for path in (os.path.join(TREE, target), folder("corpus", target), folder("seeds", target))
                       if os.path.isdir(path)]
            subprocess.run([program("fuzz", target), "-set_cover_merge=1", "-use_counters=0", f"-max_len={KEEP_BYTES}",
                            "-handle_bus=0", smallest, *sources], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for seed in glob.glob(os.path.join(folder("seeds", target), "*")):
                for path in glob.glob(os.path.join(smallest, "*")):
                    if filecmp.cmp(seed, path, shallow=False):
                        os.unlink(path)
            shutil.rmtree(os.path.join(TREE, target), ignore_errors=True)
            shutil.copytree(smallest, os.path.join(TREE, target))
        print(f"  {target}: {len(os.listdir(os.path.join(TREE, target)))} inputs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, help="for all targets together")
    parser.add_argument("--seconds", type=float, default=20, help="for each target, if no hours are said (20)")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time (2)")
    parser.add_argument("--keep", action="store_true", help="afterwards, renew the corpus in the tree")
    parser.add_argument("target", nargs="*", help=f"of {', '.join(targets())}; all")
    arguments = parser.parse_args()
    names = arguments.target or targets()
    unknown = set(names) - set(targets())
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    seconds = arguments.seconds
    if arguments.hours is not None:
        seconds = max(1, arguments.hours * 3600 * arguments.jobs / len(names))
    build()
    started = time.monotonic()
    jobs = min(arguments.jobs, len(names))
    turns = turns_of(names, seconds, jobs)
    print(f"{len(names)} targets, {turns} x {seconds / turns:.0f} s each, {jobs} at a time; what they find is in {FOUND}",
          flush=True)
    good = fuzz(names, seconds, jobs, turns)
    print(f"{time.monotonic() - started:.0f} s; crashes: {len(os.listdir(folder('crashes')))} in {folder('crashes')}")
    if arguments.keep:
        keep(names)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
