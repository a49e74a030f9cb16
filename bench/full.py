"""What to do for a receiver without room: drop at once, or hold for how long? Switches built with other constants of policy/full, interleaved.

--third: three guests of our own (bench/third.c), of which C is stuck, slow or greedy. A and B are as well off as the ratio of the frames that get
from A to B to those with a C that takes all at once; beside a greedy C, as the part that arrives of the 50,000 frames a second that A sends. --tcp:
one stream between two QEMU guests whose rings have room for 13 large frames. Only runs that others left alone count, if each switch has some.
"""
import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from guests import busy_seconds, figures, interleave, measure, quiet_ones, ratios, ring_properties, save  # noqa: E402
from bench.ratios import spread_text  # noqa: E402
from rig import scratch  # noqa: E402
from rig.pair import Pair  # noqa: E402
from rig.switch import Switch  # noqa: E402

SWITCHES = {
    "hold 20 ms": {},  # as it is: the others are compared with it
    "drop": {"HOLD_US": 0, "CREDIT_US": 0},
    "hold 1 ms": {"HOLD_US": 1000},
    "hold 5 ms": {"HOLD_US": 5000},
    "hold 100 ms": {"HOLD_US": 100000, "MOVING_US": 250000},
    "without credit": {"SEVERAL_US": 0},  # as long for one of several receivers as for a single one
}
FIRST = "hold 20 ms"
READY = "ready"
THIRDS = [READY, "stuck", "slow 1000", "greedy", "crowd", "large"]
SMALL_RINGS = {"device": ring_properties("off", "off", 256)}


def build(build_folder, name, constants):
    """The switch of that name."""
    if not constants:
        return build_folder / "ringway"
    folder = build_folder / f"full-{name.replace(' ', '-')}"
    if not folder.exists():
        flags = " ".join(f"-DFULL_{key}={value}u" for key, value in constants.items())
        subprocess.run(["meson", "setup", folder, f"-Dc_args={flags}"], check=True, capture_output=True)
    subprocess.run(["ninja", "-C", folder, "-j2", "--quiet", "ringway"], check=True)
    return folder / "ringway"


class Three:
    """A switch with one worker and three sockets; no guests but while it is measured."""

    guests = ()

    def __init__(self, binary):
        self.folder = scratch.folder("full")
        self.sockets = [self.folder / f"{name}.sock" for name in "abc"]
        self.switch = Switch(binary, self.folder, [f"{path.stem} vhost-user listen={path}" for path in self.sockets], ["--workers", 1])

    def close(self):
        self.switch.kill()
        shutil.rmtree(self.folder)


def measure_third(side, program, seconds):
    """One run with each kind of C: million frames/s from A to B, and their ratio to what is fair."""
    result = {"others": 0}
    for third in THIRDS:
        word, *us = third.split()
        busy, switch, began = busy_seconds(), side.switch.cpu_seconds(), time.monotonic()
        child = subprocess.run([program, *side.sockets, word, str(seconds), *us], check=True, capture_output=True, text=True)
        report, took = json.loads(child.stdout), time.monotonic() - began
        others = (busy_seconds() - busy - (side.switch.cpu_seconds() - switch)) / took - 1  # the guests poll
        rate = report["a_to_b"] / 1e6
        if word in ("greedy", "crowd"):
            result[f"{third}: arrived of A's"] = report["a_to_b"] / report["sent_to_b"]
        else:
            result[f"{third}: M/s"] = rate
            if third != READY:
                result[f"{third}: to ready"] = rate / result[f"{READY}: M/s"]
        result["others"] = max(result["others"], others)
    return result


def print_table(runs, out):
    save(runs, out)
    runs = quiet_ones(runs)
    keys = list(next(run for run in runs[FIRST] if run))
    for key in keys:
        print(key)
        for name, found in runs.items():
            ratio = f"to {FIRST}: {spread_text(ratios(found, runs[FIRST], key))}" if key in ("gbits", "cpu") else ""
            print(f"    {name:16} {spread_text(figures(found, key)):24} {ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--tcp", action="store_true", help="TCP between QEMU guests, in place of three guests of our own")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0, help="of each run (3, or 0.5)")
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", arguments.build, "--quiet", "ringway", "bench/third"], check=True)
    binaries = {name: build(arguments.build, name, constants) for name, constants in SWITCHES.items()}
    if arguments.tcp:
        makers = {name: lambda binary=binary: Pair(binary, (SMALL_RINGS, SMALL_RINGS)) for name, binary in binaries.items()}
        runs = interleave(makers, lambda side: measure(side, 1, int(arguments.seconds or 3)), arguments.repeat)
    else:
        makers = {name: lambda binary=binary: Three(binary) for name, binary in binaries.items()}
        runs = interleave(makers, lambda side: measure_third(side, arguments.build / "bench/third", arguments.seconds or 0.5),
                          arguments.repeat)
    print_table(runs, arguments.build / ("full-tcp.json" if arguments.tcp else "full.json"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
