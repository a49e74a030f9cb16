#!/usr/bin/env python3
"""Tap ports: namespaces that reach each other through ringway, devices of every kind, and what befalls them.

Needs root. Runs in a network namespace of its own; the hosts at the taps' ends are further ones."""
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig import RigError, check, scratch
from rig.host import Host, command, enter_namespace, wait_for
from rig.process import Process
from rig.switch import NOBODY, Switch, UNPRIVILEGED
from rig.tap import main

TOOLS = ("ip", "ethtool", "iperf3", "unshare")
MEGABYTES = 100
TUNSETIFF, TUNSETQUEUE, TUNATTACHFILTER, TUNDETACHFILTER = 0x400454CA, 0x400454D9, 0x401054D5, 0x401054D6
IFF_TUN, IFF_TAP, IFF_MULTI_QUEUE, IFF_DETACH_QUEUE, IFF_NO_PI, IFF_VNET_HDR = 0x1, 0x2, 0x100, 0x400, 0x1000, 0x4000
# Runs what follows without io_uring_setup(2), number 425 everywhere, as a container's filter does.
NO_URING = """
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit("no seccomp")
os.execv(sys.argv[1], sys.argv[1:])
"""


def device_exists(name):
    return subprocess.run(["ip", "link", "show", "dev", name], capture_output=True).returncode == 0


class TapSwitch(Switch):
    """`prefix` is what runs it; `pass_fds` it inherits."""

    def __init__(self, binary, folder, ports, prefix=(), pass_fds=(), **more):
        self.prefix = prefix
        self.pass_fds = pass_fds
        super().__init__(binary, folder, ports, **{"arguments": ["--keep-net-admin"], **more})

    def start(self):
        self.process = Process([*self.prefix, *self.command], self.log, options=self.options, pass_fds=self.pass_fds)
        wait_for(lambda: self.process.ended() or self.answers(), "an answer", 20)
        if self.process.ended():
            raise RigError(self.process.ended())

    def port_command(self, *words):
        return subprocess.run([self.binary, "port", *words, "--control", self.control], capture_output=True, text=True,
                              timeout=20)

    def add(self, *words):
        run = self.port_command("add", *words)
        check(run.returncode == 0, f"port add {words}: {run.stderr}")

    def refuse(self, words, said, remedy):
        run = self.port_command("add", *words)
        check(run.returncode == 1, f"port add {words}: status {run.returncode} {run.stderr}")
        check(run.stderr.count("\n") == 1, f"port add {words}: not one line: {run.stderr!r}")
        for part in (said, remedy):
            check(part in run.stderr, f"port add {words}: no {part!r} in {run.stderr!r}")
        check(words[0] not in [port["name"] for port in self.show("port")], f"{words}: the port is there")


class Pair:
    """Two hosts with a switch between them."""

    def __init__(self, binary, queues=1, **more):
        self.folder = scratch.folder("tap")
        self.hosts = []
        ports = [f"{name} tap dev=rw{name}0 queues={queues}" for name in "ab"]
        self.switch = TapSwitch(binary, self.folder, ports, arguments=["--workers", "2", "--keep-net-admin"], **more)

    def __enter__(self):
        try:
            for number, name in enumerate("ab", 1):
                self.hosts.append(Host(self.folder, f"rw{name}0", f"10.77.0.{number}"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        log = self.switch.process
        for host in self.hosts:
            host.end()
        clean = self.switch.stop()
        text = log.tail(20)
        shutil.rmtree(self.folder)
        if _ and _[0] is None:
            check(clean, f"the switch did not end well: {text}")

    def ways(self):
        return (self.hosts, self.hosts[::-1])

    def settled(self):
        """Both ports, when nothing moves any more."""
        ports = None
        while ports != (now := self.switch.show("port")):
            ports = now
            time.sleep(0.3)
        return ports

    def check_counters(self):
        """Whatever one host sends is delivered to the other or counted as dropped."""
        a, b = self.settled()
        for source, sink in ((a, b), (b, a)):
            sent = source["ingress"]["frames"] - source["ingress"]["dropped"].get("no_destination", 0)
            arrived = sink["egress"]["frames"] + sum(sink["egress"]["dropped"].values())
            check(sent == arrived, f"{source['name']} to {sink['name']}: {sent} in, {arrived} out: {source} {sink}")


def icmp_sum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(sender, receiver, count=3, size=56, timeout=2):
    """How many of `count` were answered."""
    answered = 0
    with sender.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        for number in range(count):
            body = os.urandom(size)
            head = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, number)
            head = struct.pack("!BBHHH", 8, 0, icmp_sum(head + body), os.getpid() & 0xFFFF, number)
            raw.sendto(head + body, (receiver.address, 0))
            end = time.monotonic() + timeout
            while (left := end - time.monotonic()) > 0:
                raw.settimeout(left)
                try:
                    packet = raw.recv(65536)
                except TimeoutError:
                    break
                if packet[20:21] == b"\0" and packet[24:28] == head[4:8] and packet[28:] == body:
                    answered += 1
                    break
    return answered


def check_ping(pair):
    for sender, receiver in pair.ways():
        answered = ping(sender, receiver)
        check(answered == 3, f"{sender.address} pinged {receiver.address}: {answered} of 3 answered")


def transfer(sender, receiver, megabytes=MEGABYTES):
    """Sends random bytes and compares checksums."""
    chunk = os.urandom(1 << 20)
    received = hashlib.sha256()

    def receive(listener):
        connection = listener.accept()[0]
        connection.settimeout(60)
        with connection:
            while data := connection.recv(1 << 20):
                received.update(data)

    with receiver.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((receiver.address, 0))
        listener.listen()
        listener.settimeout(30)
        thread = threading.Thread(target=receive, args=(listener,))
        thread.start()
        sent = hashlib.sha256()
        with sender.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(60)
            connection.connect(listener.getsockname())
            for number in range(megabytes):
                data = chunk[number:] + chunk[:number]
                sent.update(data)
                connection.sendall(data)
        thread.join()
    check(received.digest() == sent.digest(), "what arrived has another checksum than what was sent")


def iperf(sender, receiver, *options):
    server = subprocess.Popen(receiver.words("iperf3", "-s", "-1"),
                              stdout=subprocess.DEVNULL)
    try:
        def listens():
            return ":5201" in receiver.command("ss", "-Hltn")
        wait_for(listens, "iperf3 to listen")
        end = json.loads(sender.command("iperf3", "-J", "-c", receiver.address, "-t", "1", *options))["end"]
        return end.get("sum_received") or end["sum"]
    finally:
        server.kill()
        server.wait()


def check_flows(pair, flows=64, each=4):
    """So many flows either way arrive, and every queue of both ports has a part in each direction."""
    for sender, receiver in pair.ways():
        with receiver.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
            sink.bind((receiver.address, 0))
            sink.settimeout(5)
            for _ in range(flows):
                with sender.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
                    for _ in range(each):
                        source.sendto(b"x" * 100, sink.getsockname())
                for _ in range(each):
                    sink.recv(200)
    for name in "ab":
        for direction in ("tx", "rx"):
            queues = pair.switch.queues(name, direction)
            check(len(queues) == 4 and all(queue["frames"] for queue in queues), f"{name} {direction}: {queues}")


class Flood:
    """Small frames from one host to another, as fast as one thread can, until it is over."""

    def __init__(self, sender, receiver):
        self.socket = sender.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.to = (receiver.address, 9)
        self.over = False
        # The receiver's address shall be known, and stay so when it does not answer.
        hardware = json.loads(receiver.ip("-json", "link", "show", "dev", receiver.device))[0]["address"]
        sender.ip("neighbor", "replace", receiver.address, "lladdr", hardware, "dev", sender.device)
        self.thread = threading.Thread(target=self.send)

    def send(self):
        while not self.over:
            try:
                self.socket.sendto(b"x" * 100, self.to)
            except OSError:  # its own device is gone
                time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.socket.close()


def check_idle(switch, what):
    before = switch.cpu_seconds()
    time.sleep(2)
    used = switch.cpu_seconds() - before
    check(used <= 0.06, f"{what}: {used:.2f} s of CPU time in 2 s")


def test_traffic(tap, binary):
    with Pair(binary) as pair:
        tap.report = lambda: pair.switch.table("port")
        with tap.test("pings both ways, after the devices were moved to other namespaces"):
            check_ping(pair)
            for port in pair.settled():
                check(port["state"] == "up" and not port["reason"], str(port))
                check(port["mtu"] is None, f"the MTU of a device in another namespace cannot be known: {port}")
            command("ip", "tuntap", "add", "dev", "rwa0", "mode", "tap")  # of that name, but another
            check(pair.switch.port("a")["mtu"] is None, str(pair.switch.port("a")))
            command("ip", "link", "del", "dev", "rwa0")
        with tap.test("the host leaves checksums and segmentation to whoever receives"):
            for host in pair.hosts:
                features = host.command("ethtool", "-k", host.device)
                for name in ("tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp6-segmentation",
                             "tx-tcp-ecn-segmentation"):
                    check(f"{name}: on" in features, f"{name} is not on: {features}")
                knows_uso = "guest_uso4" in pair.switch.port("a")["features"]
                check(("tx-udp-segmentation: on" in features) == knows_uso, f"tx-udp-segmentation: {features}")
        with tap.test("TCP both ways, in frames larger than the MTU"):
            for sender, receiver in pair.ways():
                before = pair.settled()
                tap.note(f"{iperf(sender, receiver)['bits_per_second'] / 1e9:.2f} Gbit/s")
                after = pair.settled()
                number = pair.hosts.index(sender)
                frames, size = (after[number]["ingress"][key] - before[number]["ingress"][key]
                                for key in ("frames", "bytes"))
                check(size / frames > 1514, f"{frames} frames of {size / frames:.0f} bytes")
        with tap.test("UDP both ways, nothing lost between the taps"):
            before = pair.settled()  # the first port's link was up before the other's: it may have lost a greeting
            for sender, receiver in pair.ways():
                iperf(sender, receiver, "-u", "-b", "50M")
            for was, port in zip(before, pair.settled()):
                check(port["egress"]["dropped"] == was["egress"]["dropped"], str(port))
                check(port["ingress"]["frames"] > was["ingress"]["frames"] + 1000, str(port))
        with tap.test(f"{MEGABYTES} MB both ways keep their checksum"):
            for sender, receiver in pair.ways():
                transfer(sender, receiver)
        with tap.test("counters add up"):
            pair.check_counters()
        with tap.test("no CPU time when nothing is sent"):
            check_idle(pair.switch, "two quiet taps")
        with tap.test("a queue of one frame at the receiver loses frames, not connections"):
            for host in pair.hosts:
                host.ip("link", "set", "dev", host.device, "txqueuelen", "1")
            for sender, receiver in pair.ways():
                transfer(sender, receiver, 2)
            pair.check_counters()
    tap.report = None


def test_plain_calls(tap, binary):
    with Pair(binary, prefix=[sys.executable, "-c", NO_URING]) as pair:
        with tap.test("where io_uring is forbidden, plain calls do, and the log says so"):
            check_ping(pair)
            for sender, receiver in pair.ways():
                transfer(sender, receiver)
            pair.check_counters()
            log = pair.switch.log.read_text()
            check("no io_uring (Operation not permitted)" in log, f"the log: {log}")
            check_idle(pair.switch, "two quiet taps")


def test_queues(tap, binary):
    with Pair(binary, queues=4) as pair:
        with tap.test("several queues share the flows"):
            check_ping(pair)
            iperf(*pair.hosts, "-P", "8")
            for name in "ab":
                for direction in ("tx", "rx"):
                    queues = pair.switch.queues(name, direction)
                    used = [queue for queue in queues if queue["frames"] > 100]
                    check(len(queues) == 4 and len(used) > 1, f"{name} {direction}: {queues}")
            for sender, receiver in pair.ways():
                transfer(sender, receiver, 20)
            pair.check_counters()


def test_queues_of_another(tap, binary):
    with tap.test("devices of several queues that another made carry frames in all of them"):
        for name in "ab":
            command("ip", "tuntap", "add", "dev", f"rw{name}0", "mode", "tap", "multi_queue")
        with Pair(binary, queues=4) as pair:
            check_ping(pair)
            check_flows(pair)
            for sender, receiver in pair.ways():
                transfer(sender, receiver, 20)
            pair.check_counters()


def test_misfortune(tap, binary):
    with Pair(binary) as pair:
        a, b = pair.hosts
        check_ping(pair)
        with tap.test("link down under flood: counted, told, and over by itself"):
            with Flood(a, b):
                b.ip("link", "set", "dev", b.device, "down")
                wait_for(lambda: pair.switch.port("b")["egress"]["dropped"].get("port_down", 0) > 1000, "drops")
                port = pair.switch.port("b")
                check(port["state"] == "down" and "rwb0 up" in port["reason"], str(port))
                delivered = port["egress"]["frames"]
                b.ip("link", "set", "dev", b.device, "up")
                wait_for(lambda: pair.switch.port("b")["egress"]["frames"] > delivered + 1000, "delivery")
            check(pair.switch.port("b")["state"] == "up", str(pair.switch.port("b")))
            check_ping(pair)
            pair.check_counters()
        with tap.test("the sender's link down under flood is no trouble"):
            with Flood(a, b):
                a.ip("link", "set", "dev", a.device, "down")
                time.sleep(0.3)
                check_idle(pair.switch, "a tap whose link is down")
                a.ip("link", "set", "dev", a.device, "up")
            check_ping(pair)
            pair.check_counters()
        with tap.test("namespace deleted under flood: the port stays and says why it is dead"):
            with Flood(a, b):
                time.sleep(0.2)
                b.end()
                wait_for(lambda: pair.switch.port("b")["state"] == "gone", "the device to go")
                wait_for(lambda: pair.switch.port("b")["egress"]["dropped"].get("port_down", 0) > 1000, "drops")
            port = pair.switch.port("b")
            check("deleted" in port["reason"] and port["queue_pairs"] == 0, str(port))
            check_idle(pair.switch, "a tap that is gone")
            pair.check_counters()
        with tap.test("a port whose device is gone is deleted and added again"):
            pair.switch.port_command("del", "b")
            pair.switch.add("b", "tap", "dev=rwb0")
            pair.hosts[1] = Host(pair.folder, "rwb0", "10.77.0.2")
            a.ip("neighbor", "flush", "dev", a.device)
            a.ip("neighbor", "del", "10.77.0.2", "dev", a.device)
            check_ping(pair)
        with tap.test("a device deleted while both sides send is gone, and nothing else is"):
            with Flood(pair.hosts[1], a):
                a.ip("link", "del", "dev", a.device)
                wait_for(lambda: pair.switch.port("a")["state"] == "gone", "the device to go")
            check_idle(pair.switch, "a tap that is gone")
            check(pair.switch.port("b")["state"] == "up", "the other port has suffered")


@contextmanager
def persistent(name, *words):
    command("ip", "tuntap", "add", "dev", name, *words)
    try:
        yield
    finally:
        command("ip", "link", "del", "dev", name)


def mode_of(switch, name):
    """How many queues the port has."""
    return len(switch.queues(name, "tx"))


def test_existing(tap, switch):
    with tap.test("a persistent device is used and left as it was: its link, its MTU, itself"):
        with persistent("rwt0", "mode", "tap"):
            command("ip", "link", "set", "dev", "rwt0", "mtu", "9000")
            switch.add("t", "tap", "dev=rwt0")
            port = switch.port("t")
            check(port["state"] == "down" and "ip link set dev rwt0 up" in port["reason"], str(port))
            check(port["mtu"] == 9000, str(port))
            command("ip", "link", "set", "dev", "rwt0", "up", "mtu", "1400")
            check(switch.port("t")["state"] == "up" and switch.port("t")["mtu"] == 1400, str(switch.port("t")))
            switch.port_command("del", "t")
            check(device_exists("rwt0"), "the device is gone")
            switch.add("t", "tap", "dev=rwt0")  # it was let go of at once
            switch.port_command("del", "t")
    with tap.test("a device of several queues is used with one or with many"):
        with persistent("rwt0", "mode", "tap", "multi_queue"):
            for option, queues in (([], 1), (["queues=1"], 1), (["queues=4"], 4), (["queues=256"], 256)):
                switch.add("t", "tap", "dev=rwt0", *option)
                check(mode_of(switch, "t") == queues, f"{option}: {mode_of(switch, 't')} queues")
                switch.port_command("del", "t")
    with tap.test("a device that was made is up"):
        switch.add("t", "tap", "dev=rwt0")
        check(switch.port("t")["state"] == "up" and switch.port("t")["mtu"] == 1500, str(switch.port("t")))
        switch.port_command("del", "t")
    with tap.test("a created device goes with its port, fifty times without a trace"):
        open_before = len(os.listdir(f"/proc/{switch.process.pid}/fd"))
        for _ in range(50):
            switch.add("t", "tap", "dev=rwt0", "queues=3")
            switch.port_command("del", "t")
        wait_for(lambda: not device_exists("rwt0"), "the end of the device", 2)
        wait_for(lambda: len(os.listdir(f"/proc/{switch.process.pid}/fd")) <= open_before, "the end of descriptors", 2)


def test_refusals(tap, switch):
    with tap.test("options that cannot be are refused by name"):
        for words, said, remedy in (
                ([], "dev=NAME", "fd=N"), (["dev=rwt0", "queues=0"], "queues=0", "1 to 256"),
                (["dev=rwt0", "queues=257"], "queues=257", "1 to 256"), (["dev=rwt0", "queues=2x"], "2x", "1 to 256"),
                (["dev=" + "x" * 16], "dev=", "1 to 15"), (["dev="], "dev=", "1 to 15"), (["dev=."], "dev=", "1 to 15"), (["dev=.."], "dev=", "1 to 15"),
                (["dev=a/b"], "dev=", "none of"), (["dev=tap%d"], "dev=", "none of"), (["dev=a b"], "dev=", "no blank"),
                (["dev=rwt0", "frob=1"], "'frob'", "dev, queues, fd"), (["dev=rwt0", "mtu=9000"], "the MTU", "ip link set"),
                (["fd=3"], "fd=", "ringway run")):
            switch.refuse(["t", "tap", *words], said, remedy)
        check(not device_exists("rwt0"), "a device was made")
        switch.add("t", "tap", "dev=rwt0")
        for words, remedy in ((["queues=2"], "add it again"), (["dev=x"], "add it again"), (["mtu=9000"], "ip link set"),
                              (["frob=1"], "no option 'frob'"), (["log-max=1001"], "0 to 1000"),
                              (["log-max=9", "dev=x"], "add it again")):
            run = switch.port_command("set", "t", *words)
            check(run.returncode == 1 and remedy in run.stderr, f"{words}: {run.stderr}")
        check(switch.port("t")["limits"] == {"log-max": 1}, str(switch.port("t")))
        switch.port_command("set", "t", "log-max=5")
        check(switch.port("t")["limits"] == {"log-max": 5}, str(switch.port("t")))
        switch.port_command("del", "t")
    with tap.test("devices of the wrong kind are told apart"):
        with persistent("rwt0", "mode", "tap"):
            switch.refuse(["t", "tap", "dev=rwt0", "queues=2"], "has one queue", "mode tap multi_queue")
            switch.add("u", "tap", "dev=rwt0")
            switch.refuse(["t", "tap", "dev=rwt0"], "in use", "another dev=")
            switch.refuse(["t", "tap", "dev=rwt0", "queues=2"], "has one queue", "mode tap multi_queue")
            switch.port_command("del", "u")
        with persistent("rwt0", "mode", "tap", "multi_queue"):
            switch.add("u", "tap", "dev=rwt0", "queues=200")
            switch.refuse(["t", "tap", "dev=rwt0", "queues=57"], "too few queues", "lower queues=")
            switch.port_command("del", "u")
        with persistent("rwt0", "mode", "tun"):
            for option in ([], ["queues=2"]):
                switch.refuse(["t", "tap", "dev=rwt0", *option], "not a tap device", "another dev=")
        for option in ([], ["queues=2"]):
            switch.refuse(["t", "tap", "dev=lo", *option], "not a tap device", "another dev=")


def test_rights(tap, binary, folder):
    switch = TapSwitch(binary, folder, [], options=UNPRIVILEGED)
    try:
        with tap.test("without rights: a device of the user's own works, all else is refused with a remedy"):
            switch.refuse(["t", "tap", "dev=rwt0"], "no right to make", "ip tuntap add dev rwt0 mode tap user")
            switch.refuse(["t", "tap", "dev=rwt0"], "if it was moved", "ip -n NETNS link set rwt0 netns 1")
            with persistent("rwt0", "mode", "tap", "user", NOBODY + 1):
                switch.refuse(["t", "tap", "dev=rwt0"], "another user", "ip tuntap add dev rwt0 mode tap user")
            for kind in ([], ["multi_queue"]):
                with persistent("rwt0", "mode", "tap", "user", NOBODY, *kind):
                    command("ip", "link", "set", "dev", "rwt0", "up")
                    switch.add("t", "tap", "dev=rwt0")
                    check(switch.port("t")["state"] == "up" and switch.port("t")["mtu"] == 1500, str(switch.port("t")))
                    switch.port_command("del", "t")
    finally:
        switch.stop()
    hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/net && exec "$@"', "sh"]
    switch = TapSwitch(binary, folder, [], prefix=hide)
    try:
        with tap.test("no /dev/net/tun: told with the remedy"):
            switch.refuse(["t", "tap", "dev=rwt0"], "no /dev/net/tun", "modprobe tun")
    finally:
        switch.stop()


@contextmanager
def opened_tap(name, flags, how=os.O_RDWR):
    """A descriptor as another program would make and hand over."""
    fd = os.open("/dev/net/tun", how)
    try:
        if flags:
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
        yield fd
    finally:
        os.close(fd)


def send_frame(device, length):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((device, 0))
        sender.send(bytes(length))


def test_inherited(tap, binary, folder):
    with tap.test("an inherited descriptor is a port"):
        with opened_tap("rwt0", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR) as fd:
            switch = TapSwitch(binary, folder, [f"t tap fd={fd}"], pass_fds=[fd])
            port = switch.port("t")
            check(port["state"] == "down" and "rwt0" in port["reason"], str(port))
            command("ip", "link", "set", "dev", "rwt0", "name", "rwt9")
            check("rwt9" in switch.port("t")["reason"], str(switch.port("t")))
            command("ip", "link", "set", "dev", "rwt9", "up")
            check(switch.port("t")["state"] == "up" and port["mtu"] == 1500, str(port))
            check(mode_of(switch, "t") == 1, "it has several queues")
            check(switch.stop(), switch.process.tail(5))
    with tap.test("a filter that was attached to it stays"):
        nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
        with opened_tap("rwt0", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR) as fd:
            fcntl.ioctl(fd, TUNATTACHFILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(nothing)))
            switch = TapSwitch(binary, folder, [f"t tap fd={fd}"], pass_fds=[fd])
            command("ip", "link", "set", "dev", "rwt0", "up")
            send_frame("rwt0", 1000)
            fcntl.ioctl(fd, TUNDETACHFILTER, bytes(16))
            send_frame("rwt0", 60)
            wait_for(lambda: switch.port("t")["ingress"]["frames"], "a frame", 20)
            check(switch.port("t")["ingress"]["bytes"] < 1000, str(switch.port("t")))
            check(switch.stop(), switch.process.tail(5))
    with tap.test("one that cannot be is refused"):
        good = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
        for flags, how, said in ((0, os.O_RDWR, "not an open tap"),
                                 (IFF_TAP | IFF_NO_PI, os.O_RDWR, "without IFF_VNET_HDR"),
                                 (IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, os.O_RDWR, "without IFF_TAP"),
                                 (IFF_TAP | IFF_VNET_HDR, os.O_RDWR, "without IFF_NO_PI"),
                                 (good, os.O_RDONLY, "O_RDWR"),
                                 (good | IFF_MULTI_QUEUE, os.O_RDWR, "detached")):
            with opened_tap("rwt0", flags, how) as fd:
                if flags & IFF_MULTI_QUEUE:
                    fcntl.ioctl(fd, TUNSETQUEUE, struct.pack("16sH22x", b"", IFF_DETACH_QUEUE))
                run = subprocess.run([binary, "run", "--control", folder / "c.sock", "--port", f"t tap fd={fd}"],
                                     pass_fds=[fd], capture_output=True, text=True, timeout=20)
                check(run.returncode == 1 and said in run.stderr, f"{flags:#x}: {run.returncode} {run.stderr}")
        for words in ("fd=2", "fd=x", "fd=99 queues=2", "fd=99 dev=x", "fd=99"):
            run = subprocess.run([binary, "run", "--control", folder / "c.sock", "--port", f"t tap {words}"],
                                 capture_output=True, text=True, timeout=20)
            check(run.returncode == 1, f"{words}: {run.returncode} {run.stderr}")
        config = folder / "set.conf"
        config.write_text("port add t tap dev=rwt0\nport set t fd=9\n")
        run = subprocess.run([binary, "run", "--control", folder / "c.sock", "-f", config],
                             capture_output=True, text=True, timeout=20)
        check(run.returncode == 1 and "add it again" in run.stderr, f"{run.returncode} {run.stderr}")


def body(tap, arguments):
    reason = enter_namespace(TOOLS)
    if reason:
        tap.skip("tap ports", reason)
        return
    binary = str(Path(arguments.binary).resolve())
    test_traffic(tap, binary)
    test_plain_calls(tap, binary)
    test_queues(tap, binary)
    test_queues_of_another(tap, binary)
    test_misfortune(tap, binary)
    with tempfile.TemporaryDirectory(prefix="ringway-tap-") as folder:
        os.chmod(folder, 0o777)  # for a switch that is nobody's
        switch = TapSwitch(binary, folder, [])
        test_existing(tap, switch)
        test_refusals(tap, switch)
        with tap.test("after all that the switch ends well"):
            check(switch.stop(), switch.process.tail(20))
        test_rights(tap, binary, folder)
        test_inherited(tap, binary, Path(folder))


if __name__ == "__main__":
    main(__doc__, body)
