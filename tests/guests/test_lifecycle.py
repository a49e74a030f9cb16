"""Guests reboot, pause and reload their driver under traffic. Run from the top of the source tree:
python3 -m tests.guests.test_lifecycle build/ringway"""
import time

from rig import RigError, tap, traffic
from rig.pair import Pair

QUEUES = 8  # of which two vCPUs use two: the others stay as they are
CHANGES = [1, 2] * 10 + [1]
RELOADS = 10
PAUSE_SECONDS = 2
DRIVER = "/sys/bus/virtio/drivers/virtio_net"


def flood(sender, receiver):
    """Small frames as fast as they go, whether or not anybody is there; until `killall sockperf`."""
    mac = receiver.output("cat /sys/class/net/eth0/address").strip()
    sender.output(f"arp -s {receiver.address} {mac}")
    return sender.start(f"sockperf throughput -i {receiver.address} -p 9 -t 600 -m 64")


def pause(pair, guest):
    """A TCP stream under way while one of its ends stands still."""
    under_way = traffic.Transfer(*pair.ways()[0], pause=0.1)
    time.sleep(2)
    guest.pause()
    time.sleep(PAUSE_SECONDS)
    if under_way.sending.done.is_set():
        raise RigError("the transfer ended before the guest was paused")
    guest.resume()
    under_way.finish()


def reset_in_stream(pair, sender, receiver):
    """The receiver of a TCP stream reboots; the stream is lost, the network is not."""
    traffic.Transfer(sender, receiver, pause=0.1)
    time.sleep(2)
    receiver.reset()
    receiver.wait_boot()
    pair.wait_reachable()
    sender.run("killall nc")


def reset_in_flood(pair, sender, receiver, resets):
    flooding = flood(sender, receiver)
    for _ in range(resets):
        receiver.reset()
        receiver.wait_boot()
        time.sleep(0.5)
    if flooding.done.is_set():
        raise RigError(f"the flood ended by itself: {flooding.result}")
    sender.output("killall sockperf")
    pair.wait_reachable()


def reload_driver(pair, sender, receiver):
    """Takes the driver from the receiver's device and gives it back, again and again, while frames come in."""
    flooding = flood(sender, receiver)
    device = receiver.output(f"basename {DRIVER}/virtio*").strip()
    for _ in range(RELOADS):
        receiver.output(f"echo {device} >{DRIVER}/unbind; echo {device} >{DRIVER}/bind; "
                        f"ip link set eth0 up; ip addr add {receiver.address}/24 dev eth0")
    if flooding.done.is_set():
        raise RigError(f"the flood ended by itself: {flooding.result}")
    sender.output("killall sockperf")
    pair.wait_reachable()


def replace(pair, sender, receiver):
    """The receiver is killed in a flood, and another one boots on its port."""
    flood(sender, receiver)
    time.sleep(1)
    pair.replace(pair.guests.index(receiver) + 1)
    sender.output("killall sockperf")
    pair.wait_reachable()


def change_pairs(sender, receiver):
    """Both ends of a TCP stream change their number of queue pairs all the time."""
    under_way = traffic.Transfer(sender, receiver, pause=0.1)
    for count in CHANGES:
        for guest in (sender, receiver):
            guest.output(f"ethtool -L eth0 combined {count}")
    under_way.finish()


def body(test, arguments):
    with Pair(arguments.binary, [{"queues": QUEUES}] * 2) as pair, test.reporting(pair.report):
        for guest, role in zip(pair.guests, ("sender", "receiver")):
            with test.test(f"a TCP stream survives that its {role} is paused"):
                pause(pair, guest)
        with test.test(f"a TCP stream survives {len(CHANGES)} changes of the number of queue pairs"):
            change_pairs(*pair.guests)
        with test.test("all streams flow between guests that have given up a queue pair"):
            for way in pair.ways():
                test.note(traffic.iperf(*way, seconds=1, streams=8))
        with test.test("a guest that is reset while it receives comes back"):
            reset_in_stream(pair, *pair.guests)
        with test.test("64 MiB arrive unchanged after a reset, both ways"):
            for way in pair.ways():
                traffic.transfer(*way)
        with test.test(f"a guest that is reset {arguments.resets} times in a flood comes back"):
            reset_in_flood(pair, *pair.guests, arguments.resets)
        with test.test(f"a guest whose driver is reloaded {RELOADS} times in a flood comes back"):
            reload_driver(pair, *pair.guests)
        with test.test("a guest that is killed in a flood is replaced by another on its port"):
            replace(pair, *pair.guests)
        with test.test("64 MiB arrive unchanged after all of that, both ways"):
            for way in pair.ways():
                traffic.transfer(*way)
        with test.test("the ports' counters still add up"):
            pair.check_counters()


def add_arguments(parser):
    parser.add_argument("--resets", type=int, default=3, help="under a flood of small frames (default %(default)s)")


if __name__ == "__main__":
    tap.main(__doc__, body, add_arguments)
