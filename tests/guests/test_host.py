"""A Linux guest and its host talk through a tap port, whatever either leaves to the other to checksum or to segment. Run
from the top of the source tree: python3 -m tests.guests.test_host build/ringway

Wants root; runs in network namespaces of its own."""
from rig import check, fetch, tap, traffic
from rig.capture import Capture, Sniffer, check_finished
from rig.host import HostPair, enter_namespace

TOOLS = ("ip", "ethtool", "iperf3", "unshare", "nsenter", "dnsmasq")
HOST_OFFLOADS = ("tx", "tso", "gso", "gro")
# The guest that has all; that sends what is finished, but takes what is not; and the opposite.
USUAL = [{}, {"csum": "off"}, {"guest_csum": "off", "guest_tso4": "off", "guest_tso6": "off", "guest_ecn": "off"}]
TWICE = [{}, USUAL[2]]  # with a host that has its offloads, and with one that has not
ALL = USUAL + [
    {"host_tso4": "off"}, {"guest_tso4": "off"}, {"host_tso4": "off", "guest_tso4": "off"},
    {"guest_csum": "off"}, {"csum": "off", "guest_csum": "off"}, {"mrg_rxbuf": "off"},
    {"mrg_rxbuf": "off", "indirect_desc": "off", "guest_tso4": "off"},
    {"disable-modern": "on", "disable-legacy": "off", "mrg_rxbuf": "off"},
]
MEGABYTES = 16
# Where a guest sends 64 KiB frames and gets such of 1500 bytes: an emulated one takes some 5000 a second, by QEMU's own tap as well.
WORST_SHARE_SMALL = 1 / 40


def words(device):
    return ", ".join(f"{key}={value}" for key, value in device.items()) or "all features"


def set_offloads(host, on):
    host.command("ethtool", "-K", host.device, *[word for name in HOST_OFFLOADS for word in (name, "on" if on else "off")])


def check_file(test, pair):
    """A file arrives unchanged both ways, and the host sees no wrong checksum on it."""
    with Capture(pair.host) as capture:
        for way in pair.ways():
            traffic.transfer(*way, MEGABYTES)
    test.note(capture)
    check(capture.frames, "the capture has seen nothing")
    check(not capture.bad, f"wrong checksums, of {capture.frames} frames: {capture.bad}")
    for peer in pair.guests:
        traffic.check_checksums(peer)


def check_dhcp(pair):
    """dnsmasq on the host gives the guest an address; offer and acknowledgement have the checksum of their bytes."""
    guest = pair.guest
    sniffer = Sniffer(guest, 2, "udp dst port 68")
    said = guest.output("udhcpc -f -q -n -i eth0 -s /bin/true")
    check("lease of 192.0.2.1" in said, f"the client said: {said}")
    sniffer.check()


def check_guest(test, pair, device, hosts):
    name = words(device)
    for on in hosts:
        set_offloads(pair.host, on)
        host = f"a host {'with' if on else 'without'} offloads and a guest with {name}"
        with test.test(f"pings of all sizes and TCP both ways between {host}"):
            for way in pair.ways():
                for size in (8, 1472, 20000):
                    traffic.ping(*way, count=2, size=size)
            small = not on or device.get("guest_tso4") == "off"
            test.note(traffic.iperf_both(pair.ways(), 1, WORST_SHARE_SMALL if small else traffic.WORST_SHARE))
        with test.test(f"{MEGABYTES} MiB arrive unchanged, with no wrong checksum, both ways between {host}"):
            check_file(test, pair)
        if device.get("guest_csum") == "off":
            with test.test(f"checksums are finished before they reach the guest, from {host}"):
                check_finished(pair.host, pair.guest)
        with test.test(f"DHCP works for a client that checks UDP checksums itself, from {host}"):
            check_dhcp(pair)
    with test.test(f"the ports' counters add up after that, {name}"):
        pair.check_counters()


def body(test, arguments):
    fetch.peers()
    reason = enter_namespace(TOOLS)
    if reason:
        test.skip("a guest and its host", reason)
        return
    for device in ALL if arguments.all else USUAL:
        with HostPair(arguments.binary, device=device) as pair, test.reporting(pair.report):
            pair.host.dhcp_server()
            check_guest(test, pair, device, (True, False) if arguments.all or device in TWICE else (True,))


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="more sets of features, not only the telling ones")


if __name__ == "__main__":
    tap.main(__doc__, body, add_arguments)
