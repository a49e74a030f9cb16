"""TCP between two QEMU guests: through ringway, and through two taps on a Linux bridge with all offloads, interleaved.

Each side boots its own pair of guests; the pairs take turns, and the one that waits is stopped. The CPU time is that of everything outside the
guests' control: QEMU (in which emulated guests run) and the switch; of the bridge, what the kernel does for QEMU is in QEMU's. Wants root
for taps, in a network namespace of its own.

With --rings the pairs are all behind ringway, and differ in what their rings are like: with and without mergeable buffers and indirect descriptors,
of 256 and 1024 entries. A set of these is as good as its ratio to the best.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.ratios import spread_text  # noqa: E402
from rig import scratch, traffic  # noqa: E402
from rig.guest import Guest  # noqa: E402
from rig.pair import Pair, Plugged  # noqa: E402
from rig.process import machine_seconds  # noqa: E402

GIB = 1 << 30
DISTURBED = 0.2  # CPUs that others may have during a run
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
    return total, side.switch_seconds()


def busy_seconds():
    """CPU time of the whole machine that was not idle, nor another machine's."""
    return sum(seconds for what, seconds in machine_seconds().items() if what not in ("idle", "iowait", "steal"))


def measure(side, streams, seconds):
    """One run one way: Gbit/s, CPU seconds per GiB of all and of the switch, and the CPUs that others had meanwhile."""
    for guest in side.guests:
        guest.resume()
    before, began = (*cpu_seconds(side), busy_seconds()), time.monotonic()
    stream = traffic.iperf(*side.guests, seconds, streams)
    after, took = (*cpu_seconds(side), busy_seconds()), time.monotonic() - began
    for guest in side.guests:
        guest.pause()
    qemu, switch, machine = (new - old for new, old in zip(after, before))
    gib = stream.bytes / GIB
    return {"gbits": stream.gbits, "cpu": (qemu + switch) / gib, "switch": switch / gib, "retransmits": stream.retransmits,
            "others": (machine - qemu - switch) / took}


def interleave(makers, measure_one, repeat):
    """Runs of every side, a list of dicts by its name; the sides take turns, and change their order each time. The first turn does not
    count: emulated guests translate their code in it."""
    sides, runs = {}, {name: [] for name in makers}
    try:
        for name, make in makers.items():
            sides[name] = make()
            for guest in sides[name].guests:
                guest.pause()
        for turn in range(repeat + 1):
            for name in list(makers)[::1 if turn % 2 else -1]:
                run = measure_one(sides[name])
                runs[name] += [run] if turn else []
                print(f"{turn}/{repeat} {name}: " + ", ".join(f"{key} {value:.2f}" for key, value in run.items()), flush=True)
    finally:
        for side in sides.values():
            side.close()
    return runs


def quiet_ones(runs):
    """Runs by side, None in place of those during which others had the CPUs too; all if that leaves a side without any."""
    quiet = {name: [run if run["others"] < DISTURBED else None for run in found] for name, found in runs.items()}
    print("runs that others left alone: " + ", ".join(f"{sum(map(bool, found))} of {len(found)}" for found in quiet.values()))
    if all(map(any, quiet.values())):
        return quiet
    print("noisy: as others had the CPUs too in all runs of a side, all runs are here, and ratios mean little")
    return runs


def ratios(ours, theirs, key):
    """In each turn."""
    return [our[key] / their[key] for our, their in zip(ours, theirs) if our and their and their[key]]


def figures(found, key):
    return [run[key] for run in found if run]


def save(runs, out):
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"load": os.getloadavg(), "runs": runs}, file, indent=1)


def summarize(runs, out):
    """Median and extremes of each figure, and of ringway's ratio to every other side in the same turn."""
    save(runs, out)
    keys = list(runs["ringway"][0])
    runs = quiet_ones(runs) if "others" in keys else runs
    for key in keys:
        print(f"{key:14} " + "   ".join(f"{name} {spread_text(figures(found, key))}" for name, found in runs.items()))
        for name, found in runs.items():
            if name != "ringway" and not key.startswith(("retransmits", "others")):
                print(f"{'':14} ratio to {name} {spread_text(ratios(runs['ringway'], found, key))}")


def ring_properties(mergeable, indirect, size):
    """Of virtio-net-pci. A transmit ring of more than 256 is for vhost-user only."""
    return {"mrg_rxbuf": mergeable, "indirect_desc": indirect, "rx_queue_size": size, "tx_queue_size": size}


def ring_makers(binary, which):
    """A pair of guests for each form of rings, by name; "like": both have it, "to": the receiver, "from": the sender, beside one of
    QEMU's defaults."""
    makers = {}
    for mergeable, indirect, size in itertools.product(("on", "off"), ("on", "off"), (256, 1024)):
        one, other = {"device": ring_properties(mergeable, indirect, size)}, {}
        settings = {"like": (one, one), "to": (other, one), "from": (one, other)}[which]
        makers[f"mergeable {mergeable}, indirect {indirect}, {size}"] = lambda settings=settings: Pair(binary, settings)
    return makers


def print_rings(runs, out):
    """A row for each form, and the worst's ratio to the best by their medians."""
    save(runs, out)
    runs = quiet_ones(runs)
    best = max(runs, key=lambda name: statistics.median(figures(runs[name], "gbits")))
    heads = {"gbits": "Gbit/s", "cpu": "CPU s/GiB", "switch": "of it, the switch", "retransmits": "retransmits"}
    width = max(map(len, runs))
    print(f"{'':{width}}  " + "".join(f"{head:20}" for head in (*heads.values(), "Gbit/s to the best")))
    for name, found in runs.items():
        columns = [*(figures(found, key) for key in heads), ratios(found, runs[best], "gbits")]
        print(f"{name:{width}}  " + "".join(f"{spread_text(column):20}" for column in columns))
    for key in ("gbits", "cpu"):
        medians = sorted(statistics.median(figures(found, key)) for found in runs.values())
        print(f"least to greatest of the medians, {heads[key]}: {medians[0] / medians[-1]:.2f}")


def parser_of(description, out):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--binary", default="build/ringway")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6, help="of each run")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--out", default=out)
    return parser


def arguments_of(parser):
    """The command line; goes on in a network namespace of its own."""
    arguments = parser.parse_args()
    if os.getuid() != 0:
        parser.error("taps want root")
    if IN_NAMESPACE not in os.environ:
        os.environ[IN_NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    return arguments


def main():
    parser = parser_of(__doc__, "build/guests.json")
    parser.add_argument("--rings", choices=("like", "to", "from"), help="compare forms of rings: of both guests, of the one that receives or of "
                        "the one that sends")
    arguments = arguments_of(parser)
    makers = ring_makers(arguments.binary, arguments.rings) if arguments.rings else {
        "ringway": lambda: Pair(arguments.binary), "bridge": Bridge}
    runs = interleave(makers, lambda side: measure(side, arguments.streams, arguments.seconds), arguments.repeat)
    (print_rings if arguments.rings else summarize)(runs, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
