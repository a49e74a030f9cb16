#!/usr/bin/env python3
"""Ringway beside other switches, under the same loads, in one run: a table of ratios.

All switches are there all the time, and take turns under one generator, A B C C B A for each cell of the table, since on
a shared machine rates drift by more than the switches differ. So ratios are made within such a pass, and the table gives
their median and range over the passes. A machine whose two CPUs are now separate cores (class X), now threads of one core
(S), changes the cost of a frame by a factor: the generator measures before each run how long a cache line takes there and
back, and only runs of one class are put together. Runs during which somebody else had the CPUs too are "noisy" and shown
only where there was no quiet pair: not to be believed. What remains is noise as well as difference: the first cell of each
load has ringway beside itself, too.

Cycles per frame are TSC cycles of those passes of a switch's loop that had work. All poll, so CPU time would say nothing.
Frames per second are those of whoever was slower, the switch or the generator: the table says who.
"""

import argparse
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.ratios import FIRST, ITSELF, print_machine, print_table, summarise  # noqa: E402
from bench.runs import Cell, measure, ringway_load  # noqa: E402
from bench.sides import PEERS, Ringway  # noqa: E402
from rig import RigError, testpmd  # noqa: E402

FRAMES = ["64", "256", "1518"]
LARGE = ["9000", "imix", "tso"]
RINGS = ["split", "packed"]
FORMS = ["split+indirect", "split+-mergeable", "packed+in_order"]
TOUCH = ["live", "data"]
MACS = [1, 64, 2048]
QUEUES = [1, 2, 4]
CELLS = [
    *(Cell("loop", *what) for what in itertools.product(FRAMES, TOUCH, RINGS)),
    *(Cell("loop", frame, touch, "split") for frame in LARGE for touch in TOUCH),
    *(Cell("loop", "64", "live", ring) for ring in FORMS),
    *(Cell("loop", "64", "live", "split", macs=macs) for macs in MACS[1:]),
    *(Cell("loop", "64", "live", "split", queues=queues) for queues in QUEUES[1:]),
    *(Cell(load, "64", "live", ring) for load in ("single", "hundred", "open") for ring in RINGS),
    *(Cell("dpdk", frame, "live", ring) for frame in FRAMES for ring in RINGS),
]
CHOICES = {"loads": "load", "frames": "frame", "touch": "touch", "rings": "ring", "macs": "macs",
           "queues": "queues"}  # option: part of a cell
OVERHEAD_SECONDS = {"loop": 0.8, "single": 0.8, "hundred": 0.8, "open": 0.8, "dpdk": 4}  # of a run, besides what is measured
PROBE_SECONDS = 0.02


class Comparison:
    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.sides = {}
        self.skipped = {}  # what was not measured: why
        self.passes = []

    def __enter__(self):
        self.sides[FIRST] = self._open(FIRST, Ringway)
        try:
            for name in self.args.peers:
                self._open_peer(name, *PEERS[name])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for side in self.sides.values():
            side.close()

    def _open(self, name, kind):
        place = self.folder / name
        place.mkdir()
        return kind(self.args, place)

    def _open_peer(self, name, kind, missing):
        try:
            why = missing()
            if why:
                raise RigError(why)
            self.sides[name] = self._open(name, kind)
        except (RigError, OSError) as error:
            self._skip(name, str(error))

    def _skip(self, what, why):
        self.skipped[what] = why
        say(f"without {what}: {why}")

    def _plan(self):
        """(cell, the sides that it is for)."""
        cells = self.args.cells
        if any(cell.load == "dpdk" for cell in cells) and testpmd.missing():
            self._skip("load dpdk", testpmd.missing())
            cells = [cell for cell in cells if cell.load != "dpdk"]
        before = None
        for cell in cells:
            peers = [name for name, side in self.sides.items() if name != FIRST and side.takes(cell)]
            yield cell, [FIRST, *([ITSELF] if cell.load != before else []), *peers]
            before = cell.load

    def run(self):
        plan = list(self._plan())
        seconds = self.args.passes * sum(2 * len(sides) * (self.args.seconds + OVERHEAD_SECONDS[cell.load])
                                         for cell, sides in plan)
        say(f"cells: {len(plan)}, passes: {self.args.passes}; minutes, about: {max(1, round(seconds / 60))}")
        self._warm_up(plan)
        for number in range(1, self.args.passes + 1):
            self.passes.append({})
            for cell, sides in plan:
                say(f"pass {number} of {self.args.passes}: {name_of(cell)}")
                self.passes[-1][cell] = self._turns(cell, sides)

    def _warm_up(self, plan):
        """Memory is touched for the first time, guests are seen for the first time, and what cannot be done is found out."""
        for cell, sides in {(cell.load, cell.frame == "tso", cell.queues): (cell, sides)
                            for cell, sides in reversed(plan)}.values():
            say(f"warming up: {name_of(cell)}")
            self._turns(cell, [name for name in sides if name != ITSELF])

    def _turns(self, cell, sides):
        runs = {name: [] for name in sides}
        for name in [*sides, *reversed(sides)]:
            what = f"{name}, {name_of(cell)}"
            if what in self.skipped:
                continue
            try:
                side = self.sides[FIRST if name == ITSELF else name]
                runs[name].append(measure(self.args, side, cell, self.args.seconds, self._probe))
            except RigError as error:
                if name not in self.args.peers:
                    raise
                self._skip(what, str(error))
        return runs

    def _probe(self):
        return ringway_load(self.args, self.sides[FIRST].sockets, Cell("loop", "64", "live", "split"), PROBE_SECONDS)


def name_of(cell):
    return " ".join(map(str, cell[:4])) + f", {cell.macs} MACs" * (cell.macs > 1) + f", {cell.queues} queues" * (cell.queues > 1)


def say(text):
    print(f"compare: {time.monotonic() - STARTED:4.0f} s  {text}", file=sys.stderr, flush=True)


def machine():
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":")[1].strip() for line in info if "model name" in line), "")
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--binary", type=Path, default=Path("build/ringway"), help="the ringway to measure (build/ringway)")

    def some_of(option, choices, what):
        names = {str(choice): choice for choice in choices}

        def words(text):
            if not set(text.split(",")) <= set(names):
                raise argparse.ArgumentTypeError(f"takes some of {','.join(names)}")
            return [names[word] for word in text.split(",")]
        parser.add_argument(option, type=words, default=list(choices), metavar=",".join(names), help=what)

    some_of("--peers", PEERS, "switches beside it: testpmd in io mode between two vhost ports, Open vSwitch with DPDK, "
            "and, with DPDK's driver alone, two taps on a Linux bridge")
    some_of("--loads", OVERHEAD_SECONDS, "many frames under way, one, a hundred, a million a second at random times one way, or many "
            "from DPDK's own driver")
    some_of("--frames", [*FRAMES, *LARGE], "bytes; 64, 570 and 1518 bytes, 7 to 4 to 1; or 64 KB of TCP to be cut")
    some_of("--touch", TOUCH, "what guests touch: the first cache line of a frame, or every byte")
    some_of("--rings", [*RINGS, *FORMS], "form of the rings")
    some_of("--macs", MACS, "addresses of each guest")
    some_of("--queues", QUEUES, "queue pairs of each guest")
    parser.add_argument("--passes", type=int, default=3, help="each has two runs of every switch in every cell (3)")
    parser.add_argument("--seconds", type=float, default=1, help="of each run (1)")
    parser.add_argument("--generator-cpu", type=int, default=0, metavar="CPU")
    parser.add_argument("--switch-cpu", type=int, default=1, metavar="CPU")
    parser.add_argument("--json", type=Path, metavar="FILE", help="for every run (compare.json beside the binary)")
    args = parser.parse_args()
    args.cells = [cell for cell in CELLS if all(getattr(cell, part) in getattr(args, option)
                                                for option, part in CHOICES.items())]
    if not args.cells:
        parser.error("nothing to measure: no cell of the table is of these loads, frames, touch and rings")
    args.binary = args.binary.resolve()
    args.json = args.json or args.binary.with_name("compare.json")
    if not args.json.parent.is_dir():
        parser.error(f"--json: there is no folder {args.json.parent}")
    return args


def main():
    args = parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="rw-bench-") as folder, Comparison(args, Path(folder)) as comparison:
            try:
                comparison.run()
            except KeyboardInterrupt:
                say("interrupted: this is what there is")
    except (RigError, OSError) as error:
        return f"compare: {error}"
    rows = summarise(comparison.passes)
    print_machine(comparison.passes)
    print_table(rows)
    print("Ringway's ratio to the peer, median (least-greatest) of passes; then medians of both. lost: frames, and in brackets "
          "those that the switch says it dropped.")
    for what, why in comparison.skipped.items():
        print(f"not measured: {what}: {why}")
    with open(args.json, "w") as out:
        json.dump({"machine": machine(), "arguments": vars(args), "rows": rows, "not_measured": comparison.skipped,
                   "passes": [[{**cell._asdict(), "runs": runs} for cell, runs in one.items()]
                              for one in comparison.passes]}, out, indent=1, default=str)
    print(f"Every run is in {args.json}")
    return 0


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
