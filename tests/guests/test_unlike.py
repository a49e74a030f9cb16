"""Two guests that leave unlike things to each other, old drivers among them, pass TCP and files through ringway. Run from
the top of the source tree: python3 -m tests.guests.test_unlike build/ringway"""
from rig import RigError, tap, traffic
from rig.capture import check_finished
from rig.pair import Pair

LEGACY = {"disable-modern": "on", "disable-legacy": "off"}
SHORT = {**LEGACY, "mrg_rxbuf": "off"}  # virtio 0.9.5 with a header of 10 bytes
SMALL = {"guest_tso4": "off", "guest_tso6": "off", "guest_ecn": "off", "guest_ufo": "off"}
FINISHED = {"guest_csum": "off", **SMALL}
USUAL = [(SHORT, {}), ({"indirect_desc": "off"}, {"csum": "off", **FINISHED})]
ALL = USUAL + [
    (SHORT, FINISHED), (SHORT, {**LEGACY}), (SHORT, {"csum": "off"}), ({**LEGACY, **FINISHED}, {"mrg_rxbuf": "off"}),
    ({"csum": "off"}, {}), ({"csum": "off"}, FINISHED), ({"guest_csum": "off"}, {}), ({"guest_csum": "off"}, {"csum": "off"}),
    ({"host_tso4": "off"}, {"guest_tso4": "off"}), ({"host_tso4": "off"}, FINISHED), ({"guest_tso4": "off"}, {}),
    ({"mrg_rxbuf": "off"}, {}), ({"mrg_rxbuf": "off"}, SMALL), ({"mrg_rxbuf": "off", **SMALL}, {"indirect_desc": "off"}),
    ({"mrg_rxbuf": "off", "indirect_desc": "off"}, {}), ({"mrg_rxbuf": "off", "indirect_desc": "off"}, FINISHED),
]
MEGABYTES = 16


def words(device):
    names = [] if "disable-modern" not in device else ["virtio 0.9.5"]
    names += [f"{key}={value}" for key, value in device.items() if not key.startswith("disable-")]
    return ", ".join(names) or "all features"


def check_agreed(port, device):
    """The guest has not agreed to what its device does without."""
    off = {key for key, value in device.items() if value == "off"} | ({"version_1"} if "disable-modern" in device else set())
    if both := off & set(port["features"]):
        raise RigError(f"{port['name']} has agreed to {', '.join(sorted(both))}, meant was {words(device)}")


def run(test, arguments, devices):
    names = " and one with ".join(words(device) for device in devices)
    with (Pair(arguments.binary, [{"device": device} for device in devices]) as pair, test.reporting(pair.report)):
        with test.test(f"pings of all sizes and TCP both ways between a guest with {names}"):
            for port, device in zip(pair.switch.show("port"), devices):
                check_agreed(port, device)
            for way in pair.ways():
                for size in (8, 1472, 20000):
                    traffic.ping(*way, count=2, size=size)
            test.note(traffic.iperf_both(pair.ways(), seconds=1))
        for (sender, receiver), device in zip(pair.ways(), reversed(devices)):
            if device.get("guest_csum") == "off":
                with test.test(f"{receiver.name} gets no unfinished checksum between a guest with {names}"):
                    check_finished(sender, receiver)
        with test.test(f"{MEGABYTES} MiB arrive unchanged both ways between a guest with {names}"):
            for way in pair.ways():
                traffic.transfer(*way, MEGABYTES)
            pair.check_counters()
            for guest in pair.guests:
                traffic.check_checksums(guest)


def body(test, arguments):
    for devices in ALL if arguments.all else USUAL:
        run(test, arguments, devices)


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="more sets of features, not only the telling ones")


if __name__ == "__main__":
    tap.main(__doc__, body, add_arguments)
