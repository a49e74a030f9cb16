"""Traffic between two guests, and what became of it."""
import json
import re
import time
from dataclasses import dataclass

from rig import RigError

PORT = 5001
MEGABYTES = 64
DATA = "data"
RETRIES = 3
WORST_SHARE = 1 / 10  # of the other direction's speed


def wait_reachable(sender, receiver, timeout=60):
    """Returns the seconds until a first ping was answered."""
    started = time.monotonic()
    while sender.run(f"ping -c 1 -W 1 {receiver.address}")[0]:
        if time.monotonic() > started + timeout:
            raise RigError(f"{sender.name} got no answer from {receiver.name} within {timeout} s")
        time.sleep(0.1)
    return time.monotonic() - started


def ping(sender, receiver, count=10, size=56):
    """Every ping must be answered; returns the median round trip in milliseconds."""
    output = sender.run(f"ping -c {count} -i 0.1 -W 5 -s {size} {receiver.address}")[1]
    times = sorted(float(ms) for ms in re.findall(r"time=([\d.]+)", output))
    if len(times) != count:
        raise RigError(f"{sender.name} pinged {receiver.name} {count} times, answered were {len(times)}")
    return times[count // 2]


def check_checksums(guest):
    """The guest's kernel has seen no wrong checksum since it booted."""
    lines = guest.output("cat /proc/net/snmp").splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        errors = dict(zip(names.split(), values.split())).get("InCsumErrors", "0")
        if errors != "0":
            raise RigError(f"{guest.name} has seen {errors} wrong checksums of {names.split(':')[0]}")


@dataclass
class Stream:
    gbits: float  # per second, as received
    bytes: int
    retransmits: int
    cpu: tuple  # seconds of iperf3 in the sender and in the receiver


def iperf(sender, receiver, seconds=5, streams=1):
    """TCP for a while. Every guest runs a server from boot."""
    output = sender.output(f"iperf3 -J -c {receiver.address} -t {seconds} -P {streams}", timeout=10 * seconds + 60)
    end = json.loads(output)["end"]
    received = end["sum_received"]
    cpu = tuple(end["cpu_utilization_percent"][side] / 100 * received["seconds"] for side in ("host_total", "remote_total"))
    return Stream(received["bits_per_second"] / 1e9, received["bytes"], end["sum_sent"]["retransmits"], cpu)


def iperf_both(ways, seconds, worst=WORST_SHARE):
    """TCP both ways, none of them a crawl; on a busy machine one may be slow by chance, but not each time."""
    for _ in range(RETRIES):
        streams = [iperf(*way, seconds) for way in ways]
        slow, fast = sorted(stream.gbits for stream in streams)
        if slow > fast * worst:
            return streams
    raise RigError(f"one direction does {slow:.3f} Gbit/s, the other {fast:.3f}")


def round_trips(sender, receiver, seconds=5):
    """One small UDP message at a time; returns the median round trip in microseconds."""
    server = f"sockperf server -i {receiver.address} -p {PORT}"
    receiver.start(server)
    receiver.output(f"until netstat -lun | grep -q ':{PORT} '; do sleep 0.1; done")
    output = sender.output(f"sockperf ping-pong -i {receiver.address} -p {PORT} -t {seconds} --full-rtt")
    receiver.output("killall sockperf")
    return float(re.search(r"percentile 50.000 =\s*([\d.]+)", output).group(1))


class Transfer:
    """A file on its way from one guest to the other; `finish` compares its checksums.

    `pause` is the seconds between two megabytes, to have the transfer last."""

    def __init__(self, sender, receiver, pause=0, megabytes=MEGABYTES):
        self.sender = sender
        make = f"[ -f {DATA} ] || dd if=/dev/urandom of={DATA} bs=1M count={megabytes} 2>/dev/null"
        self.checksum = sender.output(f"{make}; sha256sum <{DATA}")
        # nc hands the connection itself to a program: to copy it in and out is what it is slow at.
        self.receiving = receiver.start(f"nc -l -p {PORT} -e sh -c 'sha256sum >sum'; cat sum")
        receiver.output(f"until netstat -ltn | grep -q ':{PORT} '; do sleep 0.1; done")
        source = f"cat {DATA}" if not pause else (
            f"for i in $(seq 0 {megabytes - 1}); do"
            f" dd if={DATA} bs=1M skip=$i count=1 2>/dev/null; sleep {pause}; done")
        self.sending = sender.start(f"nc {receiver.address} {PORT} -e sh -c '{source}'")

    def finish(self, timeout=300):
        self.sending.output(timeout)
        received = self.receiving.output(timeout)
        if received != self.checksum:
            raise RigError(f"what {self.sender.name} sent has another checksum where it arrived")


def transfer(sender, receiver, megabytes=MEGABYTES):
    """Sends a file and checks it; returns the seconds from the first byte to the checksum."""
    under_way = Transfer(sender, receiver, megabytes=megabytes)
    started = time.monotonic()
    under_way.finish()
    return time.monotonic() - started
