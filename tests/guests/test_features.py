"""Two guests that agree to different virtio features pass traffic through ringway. Run from the top of the source tree:
python3 -m tests.guests.test_features build/ringway"""
from itertools import product

from rig import RigError, tap, traffic
from rig.pair import Pair

# What each feature is called as a property of QEMU's device. 'mq' is two queue pairs.
PROPERTIES = {
    "mrg_rxbuf": ["mrg_rxbuf"],
    "indirect_desc": ["indirect_desc"],
    "event_idx": ["event_idx"],
    "mq": [],
    "offload": ["csum", "guest_csum", "host_tso4", "host_tso6", "host_ecn", "host_ufo",
                "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"],
    "packed": ["packed"],
}
AGREED = {"offload": "csum", "packed": "ring_packed"}  # what the switch calls it, where it differs
# The square of mergeable buffers and indirect descriptors, where the rings' capacity differs most, and a plain device.
USUAL = [
    ("mrg_rxbuf", "indirect_desc", "event_idx", "offload"),
    ("mrg_rxbuf", "event_idx", "offload"),
    ("indirect_desc", "event_idx", "offload"),
    ("event_idx", "offload"),
    ("mq",),
]
PACKED = [
    ("packed", "mrg_rxbuf", "indirect_desc", "event_idx", "offload"),
    ("packed",),
]
SPLIT = [feature for feature in PROPERTIES if feature != "packed"]
ALL = [tuple(name for name, on in zip(SPLIT, cell) if on) for cell in product((True, False), repeat=len(SPLIT))]
# Guests whose rings differ, and of which the switch must segment and checksum for one.
UNLIKE = [
    (("mrg_rxbuf", "mq", "offload"), ("indirect_desc", "event_idx", "offload")),
    (("mrg_rxbuf", "indirect_desc", "event_idx", "offload"), ()),
    (("packed", "mrg_rxbuf", "mq", "offload"), ("indirect_desc", "event_idx", "offload")),
    (("offload",), ("mrg_rxbuf", "indirect_desc", "event_idx", "mq")),
]
WORST_SHARE = 1 / 4  # of the best cell of a square
RETRIES = 3


def device(cell):
    return {name: "on" if feature in cell else "off" for feature, names in PROPERTIES.items() for name in names}


def settings(cell):
    """The arguments of a guest that agrees to the features of a cell."""
    return {"queues": 2 if "mq" in cell else 1, "device": device(cell)}


def check_agreed(port, cell):
    """The guest uses what the cell says and no more."""
    agreed = {feature for feature in PROPERTIES if AGREED.get(feature, feature) in port["features"]}
    if agreed != set(cell):
        raise RigError(f"{port['name']} has agreed to {words(agreed)}, meant was {words(cell)}")


def speed(test, pair, cells, seconds):
    """Gbit/s between guests with the features of two cells, the mean of both ways."""
    for port, cell in zip(pair.switch.show("port"), cells):
        check_agreed(port, cell)
    for way in pair.ways():
        traffic.ping(*way)
    streams = traffic.iperf_both(pair.ways(), seconds)
    test.note(streams)
    pair.check_counters()
    for guest in pair.guests:
        traffic.check_checksums(guest)
    return sum(stream.gbits for stream in streams) / len(streams)


def words(cell):
    return "+".join(cell) or "no feature"


def name(cells):
    if cells[0] == cells[1]:
        return f"guests with {words(cells[0])}"
    return f"a guest with {words(cells[0])} and one with {words(cells[1])}"


def run(test, arguments, cells):
    """Gbit/s between two guests, None if something failed."""
    with (Pair(arguments.binary, [settings(cell) for cell in cells]) as pair, test.reporting(pair.report),
          test.test(f"{name(cells)} ping and stream both ways")):
        return speed(test, pair, cells, arguments.seconds)


def check_square(test, arguments, speeds):
    """On a busy machine a cell may be slow by chance, but not each time."""
    for cell in sorted(speeds, key=speeds.get):
        retries = RETRIES
        while speeds[cell] < max(speeds.values()) * WORST_SHARE:
            if not retries:
                raise RigError(f"{words(cell)} does {speeds[cell]:.2f} Gbit/s, another {max(speeds.values()):.2f}")
            retries -= 1
            with Pair(arguments.binary, [settings(cell)] * 2) as pair:
                speeds[cell] = speed(test, pair, (cell, cell), arguments.seconds)


def body(test, arguments):
    squares = {}
    for cell in [*ALL, *PACKED] if arguments.all else [*USUAL, *PACKED[:1]]:
        gbits = run(test, arguments, (cell, cell))
        if gbits:
            others = tuple(feature for feature in cell if feature not in ("mrg_rxbuf", "indirect_desc"))
            squares.setdefault(others, {})[cell] = gbits
    for cells in UNLIKE if arguments.all else UNLIKE[1:2]:
        run(test, arguments, cells)
    for others, speeds in squares.items():
        if len(speeds) > 1:
            with test.test(f"no ring layout stalls, beside {words(others)}"):
                check_square(test, arguments, speeds)


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="all 32 combinations, not only the telling ones")
    parser.add_argument("--seconds", type=int, default=3, help="of TCP each way (default %(default)s)")


if __name__ == "__main__":
    tap.main(__doc__, body, add_arguments)
