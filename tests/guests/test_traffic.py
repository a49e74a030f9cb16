"""Two Linux guests talk through ringway, with one queue pair and with two. Run from the top of the source tree:
python3 -m tests.guests.test_traffic build/ringway"""
from rig import RigError, tap, traffic
from rig.pair import Pair


def check_spread(pair, queues):
    """TCP streams are spread by the guest; each pair must carry some of them, both ways."""
    for guest in pair.guests:
        for direction in ("rx", "tx"):
            frames = [queue["frames"] for queue in pair.switch.queues(guest.name, direction)]
            if len(frames) != queues or not all(frames):
                raise RigError(f"{guest.name}'s {direction} rings carried {frames} frames")


def body(test, arguments):
    for queues in (1, 2):
        pairs = f"{queues} queue pair" + "s" * (queues > 1)
        with Pair(arguments.binary, [{"queues": queues}] * 2) as pair, test.reporting(pair.report):
            for sender, receiver in pair.ways():
                way = f"{sender.name} to {receiver.name} with {pairs}"
                with test.test(f"pings of all sizes are answered, {way}"):
                    for size in (8, 1400, 1472, 8000, 65000):
                        traffic.ping(sender, receiver, count=3, size=size)
                for streams in (1, 4):
                    with test.test(f"TCP flows in {streams} stream{'s' * (streams > 1)}, {way}"):
                        test.note(traffic.iperf(sender, receiver, seconds=4, streams=streams))
                with test.test(f"64 MiB arrive unchanged, {way}"):
                    test.note(f"{traffic.transfer(sender, receiver):.1f} s")
            with test.test(f"every ring of {pairs} carries frames"):
                check_spread(pair, queues)
            with test.test(f"the ports' counters add up with {pairs}"):
                pair.check_counters()
            with test.test(f"neither guest has seen a wrong checksum with {pairs}"):
                for guest in pair.guests:
                    traffic.check_checksums(guest)


if __name__ == "__main__":
    tap.main(__doc__, body)
