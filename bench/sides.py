"""The switches that compare.py sets side by side. Each polls on a CPU of its own while it is measured, and rests otherwise.

Between begin() and end() a side has `sockets` for two guests and counts what it does for them.
"""
import collections
import os
import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from rig import RigError, ovs, testpmd  # noqa: E402
from rig.switch import Switch  # noqa: E402

# TSC cycles of the passes of the switch's loop that had work, the frames and the bursts of them, and the frames that it
# says it dropped, by place (a Counter); None if it does not say.
Usage = collections.namedtuple("Usage", "cycles frames bursts dropped")
NOTHING = Usage(None, None, None, None)


def sockets(folder):
    return [folder / f"vm{port}.sock" for port in (1, 2)]


class Side:
    """Something with `sockets` for two guests."""

    def takes(self, cell):
        return True

    def dpdk_guests(self, folder, args, cell):
        return testpmd.Guests(folder, "generator", self.sockets, cpu=args.generator_cpu,
                              options={"packed_vq": 1} if cell.ring == "packed" else {})


class Counting(Side):
    """A side whose counters run on: what they counted is their difference, but where they began anew, which says nothing."""

    def begin(self, _cell):
        self.before = self.usage()

    def end(self):
        now = self.usage()
        if now.frames < self.before.frames or now.cycles < self.before.cycles:
            return NOTHING
        return Usage(*(None if after is None else after - before for after, before in zip(now, self.before)))


class Ringway(Counting):
    def __init__(self, args, folder):
        self.sockets = sockets(folder)
        self.switch = Switch(args.binary, folder, [f"{path.stem} vhost-user listen={path}" for path in self.sockets],
                             ["--workers", 1, "--cpus", args.switch_cpu])

    def usage(self):
        workers = self.switch.show("worker")
        dropped = collections.Counter({f"{port['name']} {way} {reason}": n for port in self.switch.show("port")
                                       for way in ("ingress", "egress") for reason, n in port[way]["dropped"].items()})
        return Usage(*(sum(worker[key] for worker in workers) for key in ("busy_cycles", "frames", "bursts")), dropped)

    def close(self):
        self.switch.stop()


class TestpmdIo(Side):
    """What comes in at one vhost port goes out at the other: two copies, no switching.

    One for each number of queues, and one for frames with segmentation offload, as to offer it costs something with every frame.
    """

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.switches = {}
        self._switch(False, 1)

    def _switch(self, segmented, queues):
        if (segmented, queues) not in self.switches:
            place = self.folder / f"{'tso' if segmented else 'plain'}-{queues}"
            place.mkdir()
            self.switches[segmented, queues] = testpmd.VhostSwitch(
                place, f"io-{place.name}", sockets(place), cpu=self.args.switch_cpu, main_cpu=self.args.generator_cpu,
                queues=queues, segmented=segmented)
        return self.switches[segmented, queues]

    def begin(self, cell):
        self.switch = self._switch(cell.frame == "tso", cell.queues)
        self.sockets = sockets(self.switch.log.parent)
        self.switch.start()

    def end(self):
        counted = self.switch.stop()
        dropped = collections.Counter({f"port {number} {key}": port[key] for number, port in enumerate(counted.ports)
                                       for key in ("rx_dropped", "tx_dropped") if port.get(key)})
        return Usage(counted.cycles, counted.packets, counted.bursts, dropped)

    def close(self):
        for switch in self.switches.values():
            switch.close()


class OvsDpdk(Counting):
    """Learns addresses and looks them up, like ringway; copies twice."""

    def __init__(self, args, folder):
        self.switch = ovs.OvsDpdk(folder, cpu=args.switch_cpu, main_cpu=args.generator_cpu)
        self.sockets = self.switch.sockets
        self.switch.rest()

    def begin(self, cell):
        if cell.frame == "tso":
            raise RigError("it takes segmented frames only where it is the client of the socket")
        self.switch.wake()
        try:
            self.switch.set_mtu(max(int(cell.frame), ovs.USUAL_MTU) if cell.frame.isdecimal() else ovs.USUAL_MTU)
            super().begin(cell)
        except BaseException:
            self.switch.rest()
            raise

    def usage(self):
        return Usage(*self.switch.stats(), None)  # it counts drops per port, every 5 s, while a guest is there

    def end(self):
        try:
            return super().end()
        finally:
            self.switch.rest()

    def close(self):
        self.switch.close()


class Bridge(Side):
    """Two taps on a Linux bridge, with DPDK's driver of taps; there are no rings to count cycles of."""

    switch = types.SimpleNamespace(cpu_seconds=lambda: 0)  # the kernel's part is in the generator's system calls

    def __init__(self, _args, folder):
        self.sockets = sockets(folder)

    def takes(self, cell):
        return cell.load == "dpdk" and cell.ring == "split"

    def dpdk_guests(self, folder, args, _cell):
        return testpmd.TapGuests(folder, "generator", cpu=args.generator_cpu)

    def begin(self, _cell):
        pass

    def end(self):
        return NOTHING

    def close(self):
        pass

    @staticmethod
    def missing():
        return testpmd.missing() or ovs.missing() or (None if os.path.exists("/dev/net/tun") else "there is no /dev/net/tun")


# Each with the reason why it cannot be had here, or None.
PEERS = {"testpmd": (TestpmdIo, testpmd.missing), "ovs": (OvsDpdk, ovs.missing), "bridge": (Bridge, Bridge.missing)}
