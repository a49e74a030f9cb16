"""DPDK's ten virtio-user datapaths as guests: every frame comes back as it was sent. Run from the top of the source
tree: python3 -m tests.guests.test_paths build/ringway

Frames come from capture files by testpmd's pcap ports, are sent into the switch by either guest, go round between the
guests for a while, so that the rings wrap, and are taken out into capture files. What is in those must be what was put in,
byte by byte but for the addresses, which the guests rewrite on the way."""
import collections
import itertools
import random
import struct
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from rig import check, tap
from rig.switch import Switch
from rig.testpmd import Testpmd, missing, vdev

UP_SECONDS = 10
ROUND_SECONDS = 0.2
SETTLE_SECONDS = 5
ROUNDS = 10  # that each frame goes round at the least, on average
# Together they fit the smallest ring, to whichever queues they are steered: nothing may be lost for want of room.
SIZES = [64, 65, 127, 128, 129, 256, 511, 512, 1024, 1280, 1500, 1518]
COPIES = 8  # of each size and way, spread over the queues
BUFFER = 2000
LONG = 4 * BUFFER  # fills a chain of four of its buffers
LONG_COPIES = 8
HEADROOM = 128
ADDRESSES = 12
PATHS = {f"{ring} {name}": {"packed_vq": int(ring == "packed"), "mrg_rxbuf": mergeable, "in_order": in_order,
                            "vectorized": vectorized}
         for ring in ("split", "packed")
         for name, mergeable, in_order, vectorized in (
             ("mergeable", 1, 0, 0), ("non-mergeable", 0, 0, 0), ("mergeable in order", 1, 1, 0),
             ("non-mergeable in order", 0, 1, 0), ("vectorized", 0, int(ring == "packed"), 1))}
# A fault of a driver of DPDK's (22.11.11, and as of 26.07 its source is the same): it frees what it received a second time when
# it resets the device, which fails at testpmd's net_vhost just so.
FAULTS = {"packed vectorized": {"restart_ports": "DPDK's driver frees buffers twice when it resets the device"}}
SAMPLE = [("split vectorized", 1, 256), ("packed mergeable in order", 8, 255)]


def cells():
    for path, queues, ring in itertools.product(PATHS, (1, 8), (255, 256, 1024)):
        if ring != 255 or PATHS[path]["packed_vq"]:
            yield path, queues, ring


def write_capture(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def read_capture(path):
    data = path.read_bytes()
    at, frames = 24, []
    while at < len(data):
        size, = struct.unpack_from("<I", data, at + 8)
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


def mac(port):
    return bytes([2, 0, 0, 0, 0, port + 1])


def make_frame(source, size, number):
    """UDP, a flow for each number, over IPv4 without a checksum; the rest is noise, the same in each run."""
    head = mac(source) + b"\x08\x00" + struct.pack(
        ">BBHHHBBH4s4sHHHH", 0x45, 0, size - 14, number, 0, 64, 17, 0, bytes([10, 0, 0, source]),
        bytes([10, 0, 0, source ^ 1]), 1024 + number, 9, size - 34, 0)
    return mac(source ^ 1) + head + random.Random(f"{source} {size} {number}").randbytes(size - 42)


class Guests(Testpmd):
    """Ports 0 and 1 are the guests, 2 and 3 the capture files of each."""

    def __init__(self, folder, name, path, queues, ring):
        self.folder, self.queues = Path(folder), queues
        for port in (0, 1):
            self.put(port, [])
        options = {**PATHS[path], "queues": queues, "queue_size": ring, "server": 1}
        vdevs = [vdev("net_virtio_user", port, path=self.folder / f"vm{port + 1}.sock",
                      mac=":".join(f"{byte:02x}" for byte in mac(port)), **options) for port in (0, 1)]
        vdevs += [",".join([f"net_pcap{port}"] + [f"{key}={self.capture(key, port, queue)}" for queue in range(queues)
                                                 for key in ("rx_pcap", "tx_pcap")]) for port in (0, 1)]
        super().__init__(folder, name, vdevs, cpu=0, queues=queues, mbufs=40960, eal=[
            "--force-max-simd-bitwidth=512", "--log-level=pmd.net.virtio.init:info", "--log-level=pmd.net.virtio.driver:info"],
            args=[f"--rxd={ring}", f"--txd={ring}", f"--mbuf-size={BUFFER + HEADROOM}"])
        self.cmd("set flush_rx off")
        for port in (0, 1):  # of the port that sends: the other guest
            self.cmd(f"set eth-peer {port} {':'.join(f'{byte:02x}' for byte in mac(port ^ 1))}")

    def capture(self, key, port, queue):
        return self.folder / f"{key}-{port}-{queue}"

    def put(self, port, frames):
        """What a guest's capture port will read."""
        for queue in range(self.queues):
            write_capture(self.capture("rx_pcap", port, queue), frames[queue::self.queues])

    @contextmanager
    def forward(self, mode, ports):
        """Meanwhile frames that one of the two ports gets go out at the other."""
        self.cmd(f"set fwd {mode}")
        self.cmd(f"set portlist {ports}")
        self.start()
        try:
            yield
        finally:
            self.stop()

    def send(self, port, frames):
        """A guest sends; the frames stay in the other's ring."""
        self.put(port, frames)
        self.put(port ^ 1, [])  # it is read while frames go out to it
        for capture in (2, 3):  # anew: one is read from its start, the other written from its
            self.cmd(f"port stop {capture}")
            self.cmd(f"port start {capture}")
        before = self.sent()
        with self.forward("io", f"{port + 2},{port}"):
            settle(lambda: self.sent() - before >= len(frames), lambda: f"{self.sent() - before} of {len(frames)} sent")

    def go_round(self, enough):
        """What the other guest got, this one sends again."""
        before = self.sent()
        with self.forward("mac", "0,1"):
            time.sleep(ROUND_SECONDS)
            settle(lambda: self.sent() - before > enough, lambda: f"{self.sent() - before} sent, of {enough} at the least")

    def take(self, port, count):
        """Returns what a guest has in its rings, without addresses."""
        before = self.received()
        with self.forward("io", f"{port},{port + 2}"):
            settle(lambda: self.received() - before >= count, lambda: f"{self.received() - before} of {count} frames came back")
            time.sleep(0.02)  # for one too many
        return [frame[ADDRESSES:] for queue in range(self.queues)
                for frame in read_capture(self.capture("tx_pcap", port, queue))]

    def sent(self):
        return sum(port["tx_packets"] for port in self.port_stats()[:2])

    def received(self):
        return sum(port["rx_packets"] for port in self.port_stats()[:2])


def settle(condition, complaint):
    end = time.monotonic() + SETTLE_SECONDS
    while not condition():
        check(time.monotonic() < end, complaint())
        time.sleep(0.02)


class Cell:
    def __init__(self, binary, folder, path, queues, ring):
        self.folder, self.settings = folder, (path, queues, ring)
        self.path, self.queues = path, queues
        self.starts = 0
        self.mergeable = PATHS[path]["mrg_rxbuf"]
        self.switch = Switch(binary, folder, [f"vm{n} vhost-user connect={folder}/vm{n}.sock" for n in (1, 2)])
        try:
            self.start_guests()
        except BaseException:
            self.switch.stop()
            raise

    def start_guests(self):
        self.starts += 1
        self.guests = Guests(self.folder, f"guests{self.starts}", *self.settings)

    def close(self):
        self.guests.close()
        self.switch.stop()

    def begin(self):
        self.wait_up()
        self.check_path()

    def wait_up(self):
        def up():
            return all(port["state"] == "up" and port["queue_pairs"] == self.queues for port in self.switch.show("port"))
        settle(up, lambda: f"not up with {self.queues} queue pairs")

    def check_path(self):
        log = self.guests.log.read_text(errors="replace")
        packed = PATHS[self.path]["packed_vq"]  # in order is no function of its own there, but a case of the others
        for words, path in {"vectorized": "vectorized", "in order": "packed" if packed else "inorder"}.items():
            if self.path.endswith(words):
                check(f"{path} " in log, f"the driver took another path:\n{self.guests.tail(30)}")

    def dropped(self):
        total = collections.Counter()
        for port in self.switch.show("port"):
            for side in ("ingress", "egress"):
                total.update({reason: n for reason, n in port[side]["dropped"].items() if n})
        return total

    def run(self):
        """Frames of either guest make their rounds, then those of the other."""
        dropped = self.dropped()
        sizes = SIZES * COPIES + [LONG] * LONG_COPIES * self.mergeable
        for port in (0, 1):
            frames = [make_frame(port, size, number) for number, size in enumerate(sizes)]
            self.guests.send(port, frames)
            self.guests.go_round(ROUNDS * len(frames))
            got = collections.Counter(self.guests.take(port ^ 1, len(frames)))
            want = collections.Counter(frame[ADDRESSES:] for frame in frames)
            lost, strange = want - got, got - want
            check(got == want, f"{lost.total()} frames did not come back, of sizes {sizes_of(lost)}; "
                               f"{strange.total()} were never sent, of sizes {sizes_of(strange)}")
        check(self.dropped() == dropped, f"dropped: {dict(self.dropped() - dropped)}")

    def run_long(self):
        """A frame that no buffer of the receiver holds is dropped and counted."""
        for port in (0, 1):
            dropped = self.dropped()
            self.guests.send(port, [make_frame(port, LONG, number) for number in range(LONG_COPIES)])
            settle(lambda: (self.dropped() - dropped).total() >= LONG_COPIES, lambda: f"dropped: {self.dropped()}")
            check(self.dropped() - dropped == {"too_big": LONG_COPIES}, f"dropped: {dict(self.dropped() - dropped)}")

    def restart_ports(self):
        self.guests.renegotiate(2, timeout=30)
        self.wait_up()

    def restart_guests(self):
        self.guests.close()
        self.start_guests()
        self.wait_up()

    def restart_switch(self):
        self.switch.kill()
        self.switch.start()
        self.wait_up()

    def steps(self):
        """What may happen, after each of which frames pass."""
        if not self.mergeable:
            yield f"frames of {LONG} are dropped as too big, the next ones pass", self.run_long
        for what, restart in (("the ports stop and start", self.restart_ports),
                              ("ringway is killed and starts", self.restart_switch),
                              ("testpmd ends and starts", self.restart_guests)):
            yield f"{what}: every frame comes back as it was", restart

    def report(self):
        ports = "" if self.switch.process.ended() else self.switch.table("port") + self.switch.table("queue")
        return "\n".join([ports, self.switch.process.tail(10), self.guests.tail(10)])


def sizes_of(frames):
    return sorted({len(frame) + ADDRESSES for frame in frames}) or "none"


def try_cell(test, binary, path, queues, ring):
    name = f"{path}, {queues} queue pair{'s' * (queues > 1)}, rings of {ring}"
    with tempfile.TemporaryDirectory(prefix="ringway-") as folder, \
         test.subject(f"{name}: ports come up, by the path that was meant", lambda: Cell(binary, folder, path, queues, ring),
                      Cell.begin) as cell:
        if cell:
            with test.test(f"{name}: every frame comes back as it was"):
                cell.run()
            for what, step in cell.steps():
                title = f"{name}: {what}"
                if step.__name__ in FAULTS.get(path, {}):
                    test.skip(title, FAULTS[path][step.__name__])
                else:
                    with test.test(title):
                        step()
                        cell.run()


def body(test, arguments):
    why = missing()
    if why:
        return test.skip("DPDK's paths", why)
    wide = "avx512vl" in Path("/proc/cpuinfo").read_text()
    for path, queues, ring in cells() if arguments.all else SAMPLE:
        if path == "packed vectorized" and not wide:
            test.skip(f"{path}, {queues}, rings of {ring}", "the CPU lacks AVX-512")
        else:
            try_cell(test, arguments.binary, path, queues, ring)


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="all paths, numbers of queues and sizes of rings")


if __name__ == "__main__":
    tap.main(__doc__, body, add_arguments)
