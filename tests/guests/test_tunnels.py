"""TCP between two guests in a VLAN, in VXLAN, and in both, one of the guests taking neither unfinished checksums nor large
segments. Run from the top of the source tree: python3 -m tests.guests.test_tunnels build/ringway"""
import copy

from rig import RigError, tap, traffic
from rig.capture import check_finished
from rig.pair import Pair
from tests.guests.test_unlike import FINISHED, MEGABYTES, words

# In the order in which they are made: name, the network of their addresses, and what the peer's address below is.
VXLAN = "/bin/ip link add {name} type vxlan id {id} dev {below} remote {remote} dstport 4789"
TUNNELS = [
    ("a VLAN", "v1", "198.51.100", "/bin/ip link add link eth0 name {name} type vlan id 5", "eth0", "192.0.2"),
    ("VXLAN", "x1", "203.0.113", VXLAN, "eth0", "192.0.2"),
    ("VXLAN in a VLAN", "x2", "198.18.0", VXLAN, "v1", "198.51.100"),
]
USUAL = [({}, FINISHED)]
ALL = USUAL + [({}, {}), ({"csum": "off"}, FINISHED), ({"mrg_rxbuf": "off"}, FINISHED)]


def make(guests, tunnel, number):
    """The guests once more, with their addresses in the tunnel."""
    _, name, network, command, below, outer = tunnel
    inner = []
    for guest, this, other in zip(guests, (1, 2), (2, 1)):
        guest.output(command.format(name=name, id=number, below=below, remote=f"{outer}.{other}"))
        guest.output(f"ip link set {name} up; ip addr add {network}.{this}/24 dev {name}")
        guest = copy.copy(guest)
        guest.address = f"{network}.{this}"
        inner.append(guest)
    return inner


def check_tso(guest, device):
    """The tunnel leaves segments to whoever comes below, in the end to the switch."""
    features = guest.output(f"ethtool -k {device}")
    if "tcp-segmentation-offload: on" not in features:
        raise RigError(f"{guest.name} does not leave segmentation to {device}")


def flow(test, sender, receiver):
    traffic.wait_reachable(sender, receiver)
    traffic.ping(sender, receiver, count=2, size=8000)
    test.note(traffic.iperf(sender, receiver, seconds=1))
    traffic.transfer(sender, receiver, MEGABYTES)


def run(test, arguments, devices):
    names = " and one with ".join(words(device) for device in devices)
    with Pair(arguments.binary, [{"device": device} for device in devices]) as pair, test.reporting(pair.report):
        for number, tunnel in enumerate(TUNNELS, 1):
            with test.test(f"TCP flows and {MEGABYTES} MiB arrive unchanged in {tunnel[0]}, both ways between a guest "
                           f"with {names}"):
                inner = make(pair.guests, tunnel, number)
                for guest, device in zip(inner, devices):
                    if device.get("csum") != "off":
                        check_tso(guest, tunnel[1])
                for way in (inner, inner[::-1]):
                    flow(test, *way)
                if devices[1].get("guest_csum") == "off":
                    check_finished(*inner, tunnel[1])
                for guest in pair.guests:
                    traffic.check_checksums(guest)
        with test.test(f"the ports' counters add up after that between a guest with {names}"):
            pair.check_counters()


def body(test, arguments):
    for devices in ALL if arguments.all else USUAL:
        run(test, arguments, devices)


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="more sets of features, not only the telling ones")


if __name__ == "__main__":
    tap.main(__doc__, body, add_arguments)
