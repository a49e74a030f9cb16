"""One run of compare.py: a load between two guests of a switch, and what the switch and the generator say of it."""
import collections
import json
import resource
import subprocess
import tempfile
import time

from bench.ratios import NOISY
from rig import RigError
from rig.process import machine_seconds
from rig.testpmd import BURST

DISTURBED = 0.1  # share of a CPU that others may take from a run; two pollers on one CPU halve each other
TRIES = 3  # to connect: a switch may still be at taking leave of the guests before
SETTLE_SECONDS = 15  # until frames pass: Open vSwitch needs some after guests have connected
WINDOW = 256  # frames under way

# load: "loop" keeps WINDOW frames under way both ways, "single" one there or back, "hundred" a hundred; "open" sends OPEN_RATE frames
# a second one way at random times; "dpdk" is "loop" with DPDK's driver. frame: bytes, "imix" or "tso". touch: what guests touch of a
# frame, its first line ("live") or every byte ("data"). ring: as after --ring, with "+" for ",". macs: of each guest. queues: pairs.
Cell = collections.namedtuple("Cell", "load frame touch ring macs queues", defaults=(1, 1))
OPEN_RATE = 1_000_000
OPTIONS = {"loop": ["load"], "single": ["latency"], "hundred": ["latency", "--window", "100"],
           "open": ["load", "--oneway", "--rate", str(OPEN_RATE)]}


def ringway_load(args, sockets, cell, seconds):
    """The project's own generator."""
    command = [str(args.binary), "bench", *OPTIONS[cell.load], "--json", "--a", str(sockets[0]), "--b", str(sockets[1]),
               "--size", cell.frame, "--ring", cell.ring.replace("+", ","), "--macs", str(cell.macs), "--queues", str(cell.queues),
               "--seconds", str(seconds), "--cpu", str(args.generator_cpu), *(["--data"] * (cell.touch == "data"))]
    for _ in range(TRIES):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + SETTLE_SECONDS)
        except subprocess.TimeoutExpired:
            raise RigError(f"the generator did not end within {seconds + SETTLE_SECONDS:g} s") from None
        if not done.returncode:
            return json.loads(done.stdout)
    raise RigError((done.stderr.strip() or f"the generator ended with status {done.returncode}").splitlines()[-1])


def dpdk_load(args, side, cell, seconds, probe):
    """Two ports of testpmd: a second opinion, with another driver. The CPUs it does not look at: `probe` does."""
    line = probe()
    with tempfile.TemporaryDirectory() as folder, side.dpdk_guests(folder, args, cell) as guests:
        end = time.monotonic() + SETTLE_SECONDS
        while loop(guests, cell, 0.1)["lost"]:
            if time.monotonic() > end:
                raise RigError(f"frames of DPDK's driver are still lost after {SETTLE_SECONDS} s")
        load = loop(guests, cell, seconds)
    return {key: line[key] for key in ("tsc_hz", "line_round_trip_ns", "line_class")} | load


def loop(guests, cell, seconds):
    before, began = guests.received(), time.monotonic()
    sent = guests.start_loop(WINDOW // (2 * BURST), int(cell.frame))
    time.sleep(seconds)
    frames, took = guests.received() - before, time.monotonic() - began
    guests.stop()
    return {"seconds": took, "received": frames, "frames_per_s": frames / took, "lost": sent - guests.drain()}


def measure(args, side, cell, seconds, probe):
    """One run. `probe` is a short run of another switch, for what the CPUs are like."""
    side.begin(cell)
    watch = Watch(args, side)
    try:
        if cell.load == "dpdk":
            load = dpdk_load(args, side, cell, seconds, probe)
        else:
            load = ringway_load(args, side.sockets, cell, seconds)
        disturbed = watch.disturbed()
    finally:
        usage = side.end()
    if usage.frames == 0:
        raise RigError(f"no frame passed {side.sockets[0]}")
    cycles = usage.cycles / usage.frames if usage.frames else None
    return {
        "class": NOISY if disturbed > DISTURBED else load["line_class"],
        "disturbed": disturbed,
        "cycles_per_frame": cycles,
        "frames_per_s": load["frames_per_s"],
        "busy": cycles * load["frames_per_s"] / load["tsc_hz"] if cycles else None,
        "burst": usage.frames / usage.bursts if usage.bursts else None,
        "lost": load["lost"],
        "dropped_by_switch": None if usage.dropped is None else usage.dropped.total(),
        "dropped_at": usage.dropped,
        "generator": load,
    }


class Watch:
    """Sees what time of the two CPUs went to anyone but the switch, the generator and this script."""

    def __init__(self, args, side):
        self.cpus = {args.generator_cpu, args.switch_cpu}
        self.switch = side.switch
        self.began, self.others = time.monotonic(), self._others()

    def disturbed(self):
        """As a share of one CPU."""
        return (self._others() - self.others) / (time.monotonic() - self.began)

    def _others(self):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        busy = sum(seconds for cpu in self.cpus for what, seconds in machine_seconds(f"cpu{cpu}").items()
                   if what not in ("idle", "iowait"))
        return busy - self.switch.cpu_seconds() - sum(one.ru_utime + one.ru_stime for one in used)
