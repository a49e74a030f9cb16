"""Builds the variants, runs every test and the linters, and ends with `N passed, N failed, N skipped`.

Unit, device and hostile tests run under the address and undefined-behaviour sanitizers, tests of concurrency under the
thread sanitizer, and what a sanitizer would spoil or real peers (QEMU guests, testpmd) take part in on the release build.
Beside these, which wait for much, each fuzz target runs for FUZZ_SECONDS and the linters run, with the CPU time that is
left. A test that was skipped says why and is counted as such.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from rig import scratch  # noqa: E402

# build directory, meson options, suites
VARIANTS = [
    ("build-asan", ["-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined", "-Db_lundef=false"],
     ["unit", "device", "hostile", "fuzz"]),
    ("build-tsan", ["-Dbuildtype=debugoptimized", "-Db_sanitize=thread", "-Db_lundef=false"], ["threads"]),
    ("build", [], ["plain", "guests"]),
]

FUZZ_SECONDS = 60
PROCESSES = os.cpu_count() + 1  # of tests at a time: many of them wait for time to pass
FULL_TIMES = 10  # as long as a sample may a whole attack take
THREADS_TIMES = 4  # as long may a test take under the thread sanitizer

LEFTOVERS = "echo 19 >/proc/self/autogroup; exec nice -n 19 \"$@\""  # whoever has a session of its own is weighed by that alone

POINT = re.compile(r"^(not ok|ok)\b(?:\s+\d+)?\s*-?\s*(.*)$")


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, ok, skipped, name):
        if skipped:
            self.skipped += 1
            print(f"  skipped: {name}", flush=True)
        elif ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"  FAILED: {name}", flush=True)

    def add_program(self, program):
        """One entry of meson's test log: its TAP points, or itself where it has none or died without a word."""
        failed_before, skipped_before = self.failed, self.skipped
        points = [point for point in map(POINT.match, program["stdout"].splitlines()) if point]
        for point in points:
            name = point.group(2)
            skipped = "# SKIP" in name.upper()
            self.add(point.group(1) == "ok", skipped, f"{program['name']}: {name}")
        if not points and program["result"] == "OK":
            self.add(True, False, program["name"])
        # cmocka says "not ok" of what it skips, and exits with 0.
        only_skipped = self.skipped > skipped_before and program["returncode"] == 0
        if program["result"] not in ("OK", "SKIP", "EXPECTEDFAIL") and self.failed == failed_before and not only_skipped:
            self.add(False, False, f"{program['name']}: {program['result']}")
        if self.failed > failed_before:
            print((program["stdout"] + program.get("stderr", ""))[-6000:])


def run(command, **kwargs):
    return subprocess.run(command, cwd=ROOT, **kwargs)


def build(directory, options):
    if not os.path.exists(os.path.join(ROOT, directory, "build.ninja")):
        run(["meson", "setup", directory, *options], check=True, stdout=subprocess.DEVNULL)
    run(["ninja", "-C", directory, "--quiet"], check=True)


def test(directory, suites, tally, patience):
    log = os.path.join(ROOT, directory, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    arguments = [argument for suite in suites for argument in ("--suite", suite)]
    run(["meson", "test", "-C", directory, "--no-rebuild", "--num-processes", str(PROCESSES), "-t", str(patience),
         *arguments],
        stdout=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as lines:
        programs = [json.loads(line) for line in lines]
    for program in programs:
        tally.add_program(program)
    if not programs:
        tally.add(False, False, f"{directory}: no test of {', '.join(suites)} ran")


class Leftover:
    """A command in the background, which has the CPU time that the tests leave."""

    def __init__(self, name, *command):
        self.name = name
        self.command = command

    def __enter__(self):
        self.process = subprocess.Popen(["sh", "-c", LEFTOVERS, "sh", *self.command], cwd=ROOT, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)
        return self

    def end(self, tally):
        print(self.process.communicate()[0], end="", flush=True)
        tally.add(self.process.returncode == 0, False, self.name)

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="run only this suite")
    parser.add_argument("--full", action="store_true", help="attacks in full, not a sample of them")
    parser.add_argument("--threads", action="store_true",
                        help="everything but guests and fuzzing, under the thread sanitizer alone")
    arguments = parser.parse_args()
    tally = Tally()
    started = time.monotonic()
    scratch.sweep()  # after a test that was killed

    variants, patience = VARIANTS, FULL_TIMES if arguments.full else 1
    if arguments.threads:
        os.environ["TSAN_OPTIONS"] = "atexit_sleep_ms=0"  # a second, within which others want it to have ended
        patience *= THREADS_TIMES
        variants = [(directory, options, ["unit", "device", "hostile", "threads"])
                    for directory, options, _ in VARIANTS if directory == "build-tsan"]
    if arguments.full:
        os.environ["RINGWAY_TEST_FULL"] = "1"
    beside = []
    with contextlib.ExitStack() as stack:
        if arguments.only in (None, "fuzz") and not arguments.threads:
            beside.append(stack.enter_context(Leftover("fuzz", sys.executable, "scripts/fuzz.py", "--jobs", "1",
                                                       "--seconds", str(FUZZ_SECONDS))))
        for directory, options, suites in variants:
            chosen = [suite for suite in suites if arguments.only in (None, suite)]
            if not chosen:
                continue
            print(f"[{time.monotonic() - started:4.0f} s] {directory}: {', '.join(chosen)}", flush=True)
            build(directory, options)
            if directory == "build" and not arguments.only:  # whose compile commands it needs
                beside.append(stack.enter_context(Leftover("lint", "scripts/lint")))
            test(directory, chosen, tally, patience)
        for leftover in beside:
            print(f"[{time.monotonic() - started:4.0f} s] {leftover.name}", flush=True)
            leftover.end(tally)
    print(f"[{time.monotonic() - started:4.0f} s] done")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
