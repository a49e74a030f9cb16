"""TCP between two QEMU guests: through ringway, and through two taps on a Linux bridge with all offloads, interleaved.

Each side boots its own pair of guests; the pairs take turns, and the one that waits is stopped. The CPU time is that of everything outside the
guests' control: QEMU (in which emulated guests run) and the switch; of the bridge, what the kernel does for QEMU is in QEMU's. Wants root
for taps, in a network namespace of its own.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rig import scratch, traffic  # noqa: E402
from rig.guest import Guest  # noqa: E402
from rig.pair import Pair, Plugged  # noqa: E402

GIB = 1 << 30
IN_NAMESPACE = "RINGWAY_BENCH_NAMESPACE"


class Bridge(Plugged):
    """Two guests on taps on a bridge."""

    def __init__(self):
        self.folder = scratch.folder("bridge")
        self.switch = None
        self.guests = []
        ip = ["ip", "link"]
        subprocess.run([*ip, "add", "br0", "type", "bridge"], check=True)
        subprocess.run([*ip, "set", "br0", "up"], check=True)
        for number in (1, 2):
            subprocess.run(["ip", "tuntap", "add", f"tap{number}", "mode", "tap"], check=True)
            subprocess.run([*ip, "set", f"tap{number}", "master", "br0", "up"], check=True)
            self.guests.append(Guest(number, None, self.folder, netdev=f"tap,ifname=tap{number},script=no,downscript=no"))
        for guest in self.guests:
            guest.wait_boot()
        traffic.wait_reachable(*self.guests)


def cpu_seconds(side):
    total = sum(guest.process.cpu_seconds() for guest in side.guests)
    return total, side.switch.cpu_seconds() if side.switch else 0.0


def measure(side, streams, seconds):
    """One run one way: Gbit/s, and CPU seconds per GiB of all and of the switch."""
    for guest in side.guests:
        guest.resume()
    before = cpu_seconds(side)
    stream = traffic.iperf(*side.guests, seconds, streams)
    after = cpu_seconds(side)
    for guest in side.guests:
        guest.pause()
    qemu, switch = (new - old for new, old in zip(after, before))
    gib = stream.bytes / GIB
    return {"gbits": stream.gbits, "cpu": (qemu + switch) / gib, "switch": switch / gib, "retransmits": stream.retransmits}


def interleave(makers, measure_one, repeat):
    """Runs of every side, a list of dicts by its name; the sides take turns, and change their order each time."""
    sides, runs = {}, {name: [] for name in makers}
    try:
        for name, make in makers.items():
            sides[name] = make()
            for guest in sides[name].guests:
                guest.pause()
        for turn in range(repeat):
            for name in list(makers)[::1 if turn % 2 else -1]:
                runs[name].append(measure_one(sides[name]))
                print(f"{turn + 1}/{repeat} {name}: " +
                      ", ".join(f"{key} {value:.2f}" for key, value in runs[name][-1].items()), flush=True)
    finally:
        for side in sides.values():
            side.close()
    return runs


def spread(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} ({values[0]:.2f}-{values[-1]:.2f})"


def summarize(runs, out):
    """Median and extremes of each figure, and of ringway's ratio to every other side in the same turn."""
    with open(out, "w", encoding="utf-8") as file:
        json.dump(runs, file, indent=1)
    ours = runs["ringway"]
    for key in ours[0]:
        print(f"{key:14} " + "   ".join(f"{name} {spread([run[key] for run in found])}" for name, found in runs.items()))
        for name, found in runs.items():
            ratios = [our[key] / other[key] for our, other in zip(ours, found) if other[key]]
            if name != "ringway" and ratios and not key.startswith("retransmits"):
                print(f"{'':14} ratio to {name} {spread(ratios)}")


def arguments_of(description, out):
    """The command line; goes on in a network namespace of its own."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--binary", default="build/ringway")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6, help="of each run")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--out", default=out)
    arguments = parser.parse_args()
    if os.getuid() != 0:
        parser.error("taps want root")
    if IN_NAMESPACE not in os.environ:
        os.environ[IN_NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    return arguments


def main():
    arguments = arguments_of(__doc__, "build/guests.json")
    runs = interleave({"ringway": lambda: Pair(arguments.binary), "bridge": Bridge},
                      lambda side: measure(side, arguments.streams, arguments.seconds), arguments.repeat)
    summarize(runs, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
