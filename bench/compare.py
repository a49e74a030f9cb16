#!/usr/bin/env python3
"""Ringway beside DPDK's testpmd, under the same load, in one run.

The baseline is testpmd in io mode between two vhost ports: two copies and no switching, on a core of
its own. Both sides are there all the time, and take turns under one generator, A B B A for each
frame size, since on a shared machine rates drift by more than the sides differ. So ratios are made
within such a pass, and the table gives their median and range. A machine whose two CPUs are now
separate cores (class X), now threads of one core (S), changes the cost of a frame by a factor: the
generator measures how long a cache line takes there and back, and only runs of one class are put
together. Runs during which somebody else had the CPUs too are "noisy": not to be believed.

What is compared is TSC cycles per frame in passes of the switch's loop that had work. Both sides
poll, so CPU time would say nothing. Frames per second are the generator's as much as the switch's.

`--sides ringway,ringway` is the A/A run: what it shows is noise.
"""

import argparse
import collections
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from rig import RigError
from rig.switch import Switch
from rig.testpmd import BURST, Guests, VhostSwitch

NOISY = 0.1  # share of a CPU that others may take from a run; two pollers on one CPU halve each other

Usage = collections.namedtuple("Usage", "cycles frames bursts")


class Ringway:
    def __init__(self, args, folder):
        self.sockets = sockets(folder)
        self.switch = Switch(args.binary, folder, [f"{path.stem} vhost-user listen={path}" for path in self.sockets],
                             ["--workers", 1, "--cpus", args.switch_cpu])

    def begin(self):
        self.before = self._usage()

    def end(self):
        return Usage(*(now - then for now, then in zip(self._usage(), self.before)))

    def close(self):
        self.switch.stop()

    def _usage(self):
        workers = self.switch.show("worker")
        return Usage(*(sum(worker[key] for worker in workers)
                       for key in ("busy_cycles", "frames", "bursts")))


class TestpmdIo:
    def __init__(self, args, folder):
        self.sockets = sockets(folder)
        self.switch = VhostSwitch(folder, "switch", self.sockets, cpu=args.switch_cpu, main_cpu=args.generator_cpu)

    def begin(self):
        self.switch.start()

    def end(self):
        counted = self.switch.stop()  # so that it does not poll while the other side is measured
        return Usage(counted.cycles, counted.packets, counted.bursts)

    def close(self):
        self.switch.close()


def sockets(folder):
    return [folder / f"vm{port}.sock" for port in (1, 2)]


SIDES = {"ringway": Ringway, "testpmd": TestpmdIo}


def ringway_load(args, sockets, size, seconds):
    """The project's own generator."""
    command = [str(args.binary), "bench", "load", "--a", str(sockets[0]), "--b", str(sockets[1]), "--json",
               "--size", str(size), "--seconds", str(seconds), "--window", str(args.window),
               "--cpu", str(args.generator_cpu), *(["--data"] if args.data else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30)
    if done.returncode:
        raise RigError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def testpmd_load(args, sockets, size, seconds):
    """Two virtio_user ports of testpmd: a second opinion, with another driver."""
    with tempfile.TemporaryDirectory() as folder:
        with Guests(folder, "generator", sockets, cpu=args.generator_cpu) as guests:
            sent = guests.start_loop(max(1, args.window // (2 * BURST)), size)
            began = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            guests.stop()
            left = guests.drain()
            frames = sum(port["rx_packets"] for port in guests.port_stats())
    return {"size": size, "seconds": took, "received": frames, "lost": sent - left,
            "frames_per_s": frames / took, "line_class": "?"}


GENERATORS = {"ringway": ringway_load, "testpmd": testpmd_load}


def measure(args, side, size, seconds):
    watch = Watch(args, side)
    side.begin()
    load = GENERATORS[args.generator](args, side.sockets, size, seconds)
    usage = side.end()
    if not usage.frames:
        raise RigError(f"no frame passed {side.sockets[0]}")
    disturbed = watch.disturbed()
    return {
        "size": size,
        "class": "noisy" if disturbed > NOISY else load["line_class"],
        "disturbed": disturbed,
        "cycles_per_frame": usage.cycles / usage.frames,
        "frames_per_s": load["frames_per_s"],
        "burst": usage.frames / usage.bursts if usage.bursts else None,
        "lost": load["lost"],
        "usage": usage._asdict(),
        "generator": load,
    }


class Watch:
    """Sees what time of the two CPUs went to anyone but the switch, the generator and this script."""

    def __init__(self, args, side):
        self.cpus = {f"cpu{args.generator_cpu}", f"cpu{args.switch_cpu}"}
        self.switch = side.switch
        self.began, self.others = time.monotonic(), self._others()

    def disturbed(self):
        """As a share of one CPU."""
        return (self._others() - self.others) / (time.monotonic() - self.began)

    def _others(self):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return self._busy() - self.switch.cpu_seconds() - sum(one.ru_utime + one.ru_stime for one in used)

    def _busy(self):
        with open("/proc/stat") as stat:
            lines = [line.split() for line in stat]
        ticks = 0
        for name, user, nice, system, _idle, _iowait, irq, softirq, steal, *_ in (
                line for line in lines if line[0] in self.cpus):
            ticks += sum(map(int, (user, nice, system, irq, softirq, steal)))
        return ticks / os.sysconf("SC_CLK_TCK")


def run_passes(args, sides):
    """Yields (pass, size, {"A": [run, run], "B": [run, run]})."""
    for side in sides.values():  # warm up; memory is touched for the first time
        measure(args, side, args.sizes[0], 1)
    for number in range(1, args.passes + 1):
        for size in args.sizes:
            runs = {"A": [], "B": []}
            for label in "ABBA":
                runs[label].append(measure(args, sides[label], size, args.seconds))
            yield number, size, runs


def summarise(passes):
    """One row per frame size and class of run."""
    groups = collections.defaultdict(list)
    for _, size, runs in passes:
        for name in {run["class"] for both in runs.values() for run in both}:
            groups[size, name].append({label: [run for run in runs[label] if run["class"] == name] for label in "AB"})
    return [summary(size, name, group) for (size, name), group in sorted(groups.items())]


def summary(size, name, group):
    row = {"size": size, "class": name}
    for key in ("cycles_per_frame", "frames_per_s", "burst"):
        values = [{label: [run[key] for run in runs[label] if run[key]] for label in "AB"} for runs in group]
        row[key] = {label: spread([value for one in values for value in one[label]]) for label in "AB"}
        row[key]["A/B"] = spread([statistics.mean(one["A"]) / statistics.mean(one["B"])
                                  for one in values if one["A"] and one["B"]])
    for label in "AB":
        runs = [run for one in group for run in one[label]]
        row.setdefault("runs", {})[label] = len(runs)
        row.setdefault("lost", {})[label] = sum(run["lost"] for run in runs)
    return row


def spread(values):
    """[median, least, greatest]; None if there are none."""
    return [statistics.median(values), min(values), max(values)] if values else None


def print_table(rows):
    def cell(values, width, scale=1, digits=0):
        if not values:
            return "-".rjust(width)
        median, low, high = (f"{value / scale:.{digits}f}" for value in values)
        return f"{median} ({low}-{high})".rjust(width)

    print(f"{'':18}{'busy cycles per frame':^57}  {'million frames per second':^57}"
          f"  {'frames a burst':^15}  {'lost':^11}")
    print(f"{'size':>4} {'class':>5} {'runs':>6} " +
          "  ".join(f"{'A':>18} {'B':>18} {'A/B':>19}" for _ in range(2)) +
          f"  {'A':>7} {'B':>7}  {'A':>5} {'B':>5}")
    for row in rows:
        cycles, rate, burst, lost = (row[key] for key in
                                     ("cycles_per_frame", "frames_per_s", "burst", "lost"))
        bursts = [f"{burst[label][0]:.1f}" if burst[label] else "-" for label in "AB"]
        runs = "+".join(str(row["runs"][label]) for label in "AB")
        print(f"{row['size']:>4} {row['class']:>5} {runs:>6} "
              f"{cell(cycles['A'], 18)} {cell(cycles['B'], 18)} "
              f"{cell(cycles['A/B'], 19, digits=2)}  "
              f"{cell(rate['A'], 18, 1e6, 2)} {cell(rate['B'], 18, 1e6, 2)} "
              f"{cell(rate['A/B'], 19, digits=2)}  "
              f"{bursts[0]:>7} {bursts[1]:>7}  {lost['A']:>5} {lost['B']:>5}")


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if "model name" in line), "")
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release()}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--binary", type=Path, required=True, help="the ringway to measure")
    parser.add_argument("--sides", default="ringway,testpmd", metavar="A,B",
                        type=lambda text: text.split(","),
                        help=f"two of {', '.join(SIDES)}, the same twice to see the noise")
    parser.add_argument("--generator", default="ringway", choices=GENERATORS)
    parser.add_argument("--sizes", default="64,256,1518", metavar="BYTES,...",
                        type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each of a pass's four runs")
    parser.add_argument("--window", type=int, default=256, help="frames under way")
    parser.add_argument("--data", action="store_true", help="guests touch every byte")
    parser.add_argument("--quick", action="store_true", help="about a minute: 2 passes, 1 second")
    parser.add_argument("--generator-cpu", type=int, default=0)
    parser.add_argument("--switch-cpu", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where to write JSON (compare.json beside the binary)")
    args = parser.parse_args()
    if len(args.sides) != 2 or not set(args.sides) <= set(SIDES):
        parser.error(f"--sides takes two of {', '.join(SIDES)}")
    if args.quick:
        args.passes, args.seconds = 2, 1
    args.binary = args.binary.resolve()
    args.out = args.out or args.binary.with_name("compare.json")
    return args


def compare(args, folder):
    sides = {}
    try:
        for label, kind in zip("AB", args.sides):
            (folder / label).mkdir()
            sides[label] = SIDES[kind](args, folder / label)
        passes = []
        for entry in run_passes(args, sides):
            passes.append(entry)
            number, size, _ = entry
            print(f"pass {number} of {args.passes}, {size} B", file=sys.stderr)
        return passes
    finally:
        for side in sides.values():
            side.close()


def main():
    args = parse_args()
    print(f"A: {args.sides[0]}, B: {args.sides[1]}. The switch works on CPU {args.switch_cpu}; the "
          f"generator ({args.generator}) on CPU {args.generator_cpu}.")
    try:
        with tempfile.TemporaryDirectory(prefix="ringway-bench-") as folder:
            passes = compare(args, Path(folder))
    except (RigError, OSError) as error:
        return f"compare: {error}"
    rows = summarise(passes)
    print_table(rows)
    with open(args.out, "w") as out:
        json.dump({"machine": machine(), "arguments": vars(args), "summary": rows,
                   "passes": [{"pass": number, "size": size, "runs": runs}
                              for number, size, runs in passes]}, out, indent=1, default=str)
    print(f"Medians, least and greatest; ratios within a pass of A B B A. Every run is in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
