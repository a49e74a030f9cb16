"""TCP between two network namespaces: through two taps and ringway, and through two veth pairs and a Linux bridge, interleaved.

Taps on a bridge need somebody who reads them (bench-guests has two QEMUs there); veth pairs are what a bridge plugs together without that. The
CPU time is that of the whole machine, for which it has to be quiet (what else ran is printed), and that of ringway and both iperf3, in which
nearly all of the kernel's part is counted. Wants root, in a network namespace of its own.
"""
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from guests import GIB, arguments_of, busy_seconds, interleave, parser_of, summarize  # noqa: E402
from rig import scratch, traffic  # noqa: E402
from rig.host import Peer  # noqa: E402
from rig.pair import Plugged  # noqa: E402
from rig.switch import Switch  # noqa: E402

REST_SECONDS = 1


class Side(Plugged):
    """Two namespaces."""

    name = None

    def __init__(self, binary):
        self.folder = scratch.folder(self.name)
        self.devices = [f"{self.name[0]}host{number}" for number in (1, 2)]
        self.switch = self.plug(binary)
        self.guests = []
        for number, device in enumerate(self.devices, 1):
            folder = self.folder / str(number)
            folder.mkdir()
            self.guests.append(Peer(folder, device, f"192.0.2.{number}"))
        traffic.wait_reachable(*self.guests)


class Taps(Side):
    name = "ringway"

    def plug(self, binary):
        return Switch(binary, self.folder, [f"{device} tap dev={device}" for device in self.devices])


class Bridge(Side):
    name = "bridge"

    def plug(self, _binary):
        ip = ["ip", "link"]
        subprocess.run([*ip, "add", "br0", "type", "bridge"], check=True)
        subprocess.run([*ip, "set", "br0", "up"], check=True)
        for number, device in enumerate(self.devices, 1):
            subprocess.run([*ip, "add", device, "type", "veth", "peer", "name", f"port{number}"], check=True)
            subprocess.run([*ip, "set", f"port{number}", "master", "br0", "up"], check=True)


def measure(side, streams, seconds):
    """One run: Gbit/s, CPU seconds per GiB of the machine and of those who take part, and the CPUs that were busy before it."""
    before = busy_seconds()
    time.sleep(REST_SECONDS)
    start, switch = busy_seconds(), side.switch_seconds()
    stream = traffic.iperf(*side.guests, seconds, streams)
    used, switch, gib = busy_seconds() - start, side.switch_seconds() - switch, stream.bytes / GIB
    return {"gbits": stream.gbits, "cpu": used / gib, "processes": (switch + sum(stream.cpu)) / gib, "switch": switch / gib,
            "retransmits": stream.retransmits, "others": (start - before) / REST_SECONDS}


def main():
    arguments = arguments_of(parser_of(__doc__, "build/taps.json"))
    summarize(interleave({side.name: lambda side=side: side(arguments.binary) for side in (Taps, Bridge)},
                         lambda side: measure(side, arguments.streams, arguments.seconds), arguments.repeat), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
