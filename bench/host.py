"""TCP between a QEMU guest and its host: through ringway's tap, QEMU's own tap without vhost, and passt, interleaved.

The CPU time is that outside the threads in which the guest runs: QEMU's other threads, ringway or passt, and the host's
iperf3. passt has no tap: it speaks TCP itself and hands the bytes to the host's sockets. Its guest has the MTU that passt
gives by DHCP. Wants root, in a network namespace of its own.
"""
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from guests import GIB, arguments_of, interleave, parser_of, summarize  # noqa: E402
from rig import RigError, scratch, traffic  # noqa: E402
from rig.guest import Guest  # noqa: E402
from rig.host import HostPair, Peer  # noqa: E402
from rig.pair import Plugged  # noqa: E402
from rig.process import Process  # noqa: E402

PASST_MTU = 65520
SECONDS_TO_START = 20


class Tap(Plugged):
    """A guest on a tap of its QEMU's."""

    device, address, peer = "qtap0", "192.0.2.9", Peer

    def __init__(self):
        self.folder = scratch.folder("host")
        self.switch = None
        subprocess.run(["ip", "tuntap", "add", self.device, "mode", "tap"], check=True)
        self.start()
        wait_served(*self.guests)
        wait_served(*self.guests[::-1])

    def start(self):
        guest = Guest(1, None, self.folder, netdev=f"tap,ifname={self.device},script=no,downscript=no,vhost=off")
        guest.wait_boot()
        self.guests = [guest, self.peer(self.folder, self.device, self.address)]


class PasstPeer(Peer):
    server = "exec iperf3 -s -B 127.0.0.1"


class Passt(Tap):
    """The guest has the address of the host; its gateway's is, for passt, the host's loopback."""

    device, address, peer = "ptap0", "192.0.2.1", PasstPeer

    def start(self):
        gateway, socket = "192.0.2.9", self.folder / "passt.sock"
        host = self.peer(self.folder, self.device, self.address)
        host.ip("route", "add", "default", "via", gateway, "dev", self.device)
        self.switch = Process(host.words("passt", "--foreground", "--stderr", "--quiet", "--ipv4-only", "--runas", "0",
                                          "--socket", socket, "--tcp-ports", "127.0.0.2/5201"), self.folder / "passt.log")
        end = time.monotonic() + SECONDS_TO_START
        while not socket.exists():
            if self.switch.ended() or time.monotonic() > end:
                raise RigError(self.switch.ended() or "passt made no socket")
            time.sleep(0.1)
        guest = Guest(1, None, self.folder, netdev=f"stream,server=off,addr.type=unix,addr.path={socket}")
        guest.wait_boot()
        guest.output(f"ip link set eth0 mtu {PASST_MTU}")
        guest.address, host.address = "127.0.0.2", gateway
        self.guests = [guest, host]


def wait_served(sender, receiver):
    end = time.monotonic() + SECONDS_TO_START
    while sender.run(f"iperf3 -c {receiver.address} -n 1K")[0]:
        if time.monotonic() > end:
            raise RigError(f"no iperf3 from {sender.name} to {receiver.name}")
        time.sleep(0.5)


def measure(side, streams, seconds):
    """One run each way: Gbit/s, and CPU seconds per GiB outside the guest, with and without the host's iperf3."""
    guest, host = side.guests
    result = {}
    guest.resume()
    for way, at in (((guest, host), 1), ((host, guest), 0)):
        before = outside(side)
        stream = traffic.iperf(*way, seconds, streams)
        used, gib = outside(side) - before, stream.bytes / GIB
        result |= {f"{key} to {way[1].name}": value for key, value in (
            ("gbits", stream.gbits), ("cpu", (used + stream.cpu[at]) / gib), ("carrier", used / gib),
            ("retransmits", stream.retransmits))}
    guest.pause()
    return result


def outside(side):
    return side.guests[0].cpu_seconds_outside() + side.switch_seconds()


def main():
    arguments = arguments_of(parser_of(__doc__, "build/host.json"))
    makers = {"ringway": lambda: HostPair(arguments.binary), "tap": Tap, "passt": Passt}
    if not shutil.which("passt"):
        print("no passt: apt-get install passt")
        del makers["passt"]
    summarize(interleave(makers, lambda side: measure(side, arguments.streams, arguments.seconds), arguments.repeat),
              arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
