"""The host's end of a tap port: a network namespace with the tap in it, by itself or as the peer of a guest.

Everything runs as root below a network namespace of the test's own (`enter_namespace`), so that a switch makes its taps
where nothing else is, and all of it goes with the test."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from rig import check, fetch
from rig.guest import Job
from rig.pair import Pair
from rig.process import Process
from rig.switch import Switch

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
DEVICE = "rwhost0"
APPLETS = ("nc", "netstat", "ping")  # of busybox, since traffic.py is written for a guest's


def wait_for(condition, what, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{what} did not happen within {seconds} s")
        time.sleep(0.02)


def command(*words, **options):
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **options)
    check(run.returncode == 0, f"{' '.join(map(str, words))}: {run.stderr or run.stdout}")
    return run.stdout


def enter_namespace(tools):
    """Moves this thread and what it starts into a network namespace; returns what is missing for that, or None."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        return f"no {', '.join(missing)}"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no /dev/net/tun"
    if LIBC.unshare(CLONE_NEWNET):
        return f"no network namespace: {os.strerror(ctypes.get_errno())}"
    return None


class Host:
    """A network namespace, for as long as a process sleeps in it; a tap is its only device."""

    def __init__(self, folder, device, address):
        self.device, self.address = device, address
        self.holder = Process(["unshare", "--net", "sleep", "infinity"], Path(folder) / "host.log")
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own, "a namespace")
        self.namespace = os.open(f"/proc/{self.holder.pid}/ns/net", os.O_RDONLY)
        command("ip", "link", "set", "dev", device, "netns", self.holder.pid)
        self.ip("address", "add", f"{address}/24", "dev", device)
        self.ip("link", "set", "dev", device, "up")
        self.ip("link", "set", "dev", "lo", "up")

    @contextmanager
    def inside(self):
        """What is opened by this thread belongs to the namespace."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        check(LIBC.setns(self.namespace, CLONE_NEWNET) == 0, "setns")
        try:
            yield
        finally:
            LIBC.setns(own, CLONE_NEWNET)
            os.close(own)

    def socket(self, *kind):
        with self.inside():
            return socket.socket(*kind)

    def words(self, *words):
        """A command line that runs another in the namespace."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *words]

    def command(self, *words):
        return command(*self.words(*words))

    def ip(self, *words):
        return self.command("ip", *words)

    def end(self):
        """The namespace goes, and with it what is in it."""
        self.holder.kill()
        if self.namespace >= 0:
            os.close(self.namespace)
            self.namespace = -1


class Peer(Host):
    """A host that takes commands as a guest does, so that traffic.py can have it at either end."""

    name = "host"
    server = "exec iperf3 -s"

    def __init__(self, folder, device, address):
        self.folder = Path(folder) / self.name
        (self.folder / "bin").mkdir(parents=True)
        busybox = fetch.peers().tool("busybox")
        for applet in APPLETS:
            (self.folder / "bin" / applet).symlink_to(busybox)
        self.env = dict(os.environ, LC_ALL="C", PATH=f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin")
        self.jobs = []
        super().__init__(self.folder, device, address)
        self.process = self.holder
        self.start(self.server)

    def start(self, line):
        """Starts a command and returns at once."""
        job = Job(self, line)
        log = self.folder / f"{len(self.jobs)}.log"
        process = Process(self.words("sh", "-c", f"cd {self.folder}; {line}"), log, env=self.env)
        self.jobs.append(process)

        def wait():
            status = process.child.wait()
            job.finish((status, log.read_text(errors="replace") if log.exists() else ""))
        threading.Thread(target=wait, daemon=True).start()
        return job

    def run(self, line, timeout=60):
        """(status, output) of a command."""
        return self.start(line).wait(timeout)

    def output(self, line, timeout=60):
        """The output of a command that must succeed."""
        return self.start(line).output(timeout)

    def dhcp_server(self, *options):
        """Starts dnsmasq, which gives addresses to whoever asks on the tap."""
        return self.start(" ".join([
            "exec dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --user=root --no-ping --pid-file=",
            f"--bind-interfaces --interface={self.device} --dhcp-range=192.0.2.100,192.0.2.110,2m",
            f"--dhcp-leasefile={self.folder}/leases --log-dhcp --log-facility=-", *options]))

    def pause(self):
        """A host goes on."""

    resume = pause

    def console_tail(self, lines):
        return self.jobs[-1].tail(lines) if self.jobs else ""

    def close(self):
        for process in self.jobs:
            if not process.ended():
                os.killpg(process.pid, signal.SIGKILL)
        self.end()


class HostPair(Pair):
    """A guest and the host, plugged into each other through ringway: vm1 on vhost-user, and a tap."""

    def __init__(self, binary, **settings):
        super().__init__(binary, [settings])

    def _start(self, binary, unprivileged):
        ports = [f"vm1 vhost-user listen={self._socket(1)}", f"host tap dev={DEVICE}"]
        self.switch = Switch(binary, self.folder, ports)
        self.guests = [Peer(self.folder, DEVICE, "192.0.2.9")]
        self.before_boot(self.guests[0])
        self.guests.insert(0, self._guest(1))
        self.guests[0].wait_boot()
        self.wait_reachable()

    def before_boot(self, host):
        """For who has to prepare the host for a guest that boots."""

    @property
    def guest(self):
        return self.guests[0]

    @property
    def host(self):
        return self.guests[1]
