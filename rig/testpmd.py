"""Drives DPDK's testpmd, as guests of a vhost-user switch or as a switch itself.

Why testpmd: it is the front-end with the fastest driver and no code in common with ours, so its
counts are a second opinion; and its io mode between two vhost ports, which copies and does nothing
else, is the baseline that a switch has to stand beside.

It runs without hugepages. That rules out --in-memory, so the few files that it makes go to the
caller's folder. All it prints goes to a log file: a pipe that nobody reads would stop it.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from rig import RigError

BINARY = "dpdk-testpmd"
PACKAGE = "dpdk-dev"  # Debian's, which brings the drivers along
PROMPT = "testpmd> "
BURST = 32
MTU = 1504  # of a tap: a VLAN's tag counts


def missing():
    """Why testpmd cannot run here, or None."""
    for program, package in ((BINARY, PACKAGE), ("stdbuf", "coreutils")):
        if not shutil.which(program):
            return f"{program} not found: install the package {package}"
    return None


def vdev(driver, index, **options):
    """A --vdev argument; options as the driver has them, in order."""
    return ",".join([f"{driver}{index}"] + [f"{key}={value}" for key, value in options.items()])


class Testpmd:
    """One testpmd at its prompt, with one forwarding core.

    cpu: where it forwards; main_cpu: where its other threads run (the same if not given).
    queues: per port. args: further arguments of testpmd itself, eal: of DPDK; within: a program that becomes it.
    """

    def __init__(self, folder, name, vdevs, *, cpu, main_cpu=None, queues=1, memory=256,
                 mbufs=32768, args=(), eal=(), within=()):
        why = missing()
        if why:
            raise RigError(why)
        self.name = name
        self.log = Path(folder) / f"{name}.log"
        self.command = [
            *within, "stdbuf", "-oL", BINARY,
            "--lcores", f"0@{cpu if main_cpu is None else main_cpu},1@{cpu}", "--main-lcore", "0",
            "--no-huge", "-m", str(memory), "--no-pci", "--no-shconf", "--no-telemetry",
            "--file-prefix", f"{name}-{os.getpid()}",
            *[arg for device in vdevs for arg in ("--vdev", device)],
            *eal, "--", "-i", "--nb-cores=1", f"--rxq={queues}", f"--txq={queues}",
            f"--total-num-mbufs={mbufs}", *args,
        ]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "RUNTIME_DIRECTORY": folder})
        self._output = open(self.log, errors="replace")
        try:
            self._read_to_prompt("its start", 20)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends it: politely, so that the other side sees a clean disconnect, then not."""
        if self.process.poll() is None:
            try:
                self.process.communicate(b"quit\n", timeout=5)
            except (OSError, subprocess.TimeoutExpired):
                self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self._output.close()

    def cpu_seconds(self):
        """User and system time of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self, lines):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def renegotiate(self, ports, timeout=10):
        """Other features for the first `ports`, so that their drivers reset the devices: to stop and start alone says nothing."""
        self.cmd("port stop all")
        for port in range(ports):
            self.cmd(f"port config {port} rx_offload udp_cksum on")
        self.cmd("port start all", timeout=timeout)

    def cmd(self, text, timeout=10):
        """Runs a command; returns what was printed until the next prompt."""
        self._output.read()  # what came by itself since the last prompt
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended: the log says why
        output = self._read_to_prompt(f"'{text}'", timeout)
        if "Bad arguments" in output or "Command not found" in output:
            raise RigError(f"{self.name}: refused '{text}'")
        return output

    def _read_to_prompt(self, what, timeout):
        deadline = time.monotonic() + timeout
        output = ""
        while PROMPT not in output:
            ended = self.process.poll() is not None
            output += self._output.read()
            if ended:
                raise RigError(f"{self.name}: ended at {what}: {_complaint(output)}")
            if time.monotonic() > deadline:
                raise RigError(f"{self.name}: no prompt after {what} for {timeout} s")
            time.sleep(0.01)
        return output

    def start(self, tx_first=0):
        self.cmd("start" + (f" tx_first {tx_first}" if tx_first else ""))

    def stop(self):
        """Returns what was counted since `start`."""
        return ForwardStats(self.cmd("stop"))

    def port_stats(self):
        """What the drivers count, one dict per port: rx_packets, rx_bytes, tx_packets, ..."""
        return _per_port(self.cmd("show port stats all"), "NIC statistics")

    def fwd_stats(self):
        """What the forwarding engine counted since `start`: .ports, .cycles, .packets, .bursts"""
        return ForwardStats(self.cmd("show fwd stats all"))


class ForwardStats:
    """cycles: TSC cycles of bursts that had packets (0 without --record-core-cycles);
    packets: those they were for; bursts: sent (0 without --record-burst-stats)."""

    def __init__(self, output):
        self.ports = _per_port(output, "Forward statistics")
        self.bursts = sum(map(int, re.findall(r"TX-bursts *: (\d+)", output)))
        found = re.search(r"cycles/packet=\S+ \(\w+ cycles=(\d+) / total \w+ packets=(\d+)\)",
                          output)
        self.cycles, self.packets = map(int, found.groups()) if found else (0, 0)


def _per_port(output, title):
    ports = re.split(title + r" for port \d+", output)[1:]
    if ports:
        ports[-1] = ports[-1].split("Accumulated")[0]
    return [{key.lower().replace("-", "_"): int(value)
             for key, value in re.findall(r"([RT]X-\w+) *: +(\d+)", port)} for port in ports]


def _complaint(output):
    """The line that names the cause: the first that speaks of a failure, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    return next((line for line in lines if re.search("error,|fail|cause:", line, re.IGNORECASE)), lines[-1])


class Loop(Testpmd):
    """Ports that are guests: 0 and 1 send to each other, 2 and 3, and so on.

    A fixed number of frames goes to and fro, every one sent back when it arrives. So a frame that
    is lost is missing for good, and how many are left at the end says how many were lost.
    """

    def __init__(self, folder, name, driver, ports, *, cpu, queues=1, args=(), **options):
        self.macs = [f"02:00:00:00:00:{port + 1:02x}" for port in range(len(ports))]
        vdevs = [vdev(driver, port, **own, mac=mac) for port, (own, mac) in enumerate(zip(ports, self.macs))]
        super().__init__(folder, name, vdevs, cpu=cpu, queues=queues, args=("--port-topology=loop", *args), **options)
        self.queues = queues
        for port in range(len(ports)):
            self.cmd(f"set eth-peer {port} {self.macs[port ^ 1]}")
        self.cmd("set flush_rx off")  # else `start` throws away what waits

    def start_loop(self, bursts=1, size=64):
        """Each queue of each port sends that many bursts; returns the frames in all."""
        self.cmd(f"set txpkts {size}")
        self.cmd("set fwd macswap")
        self.start(tx_first=bursts)
        return bursts * BURST * self.queues * len(self.macs)

    def drain(self):
        """Ends the loop: takes in all frames without sending. Returns how many there were."""
        self.cmd("set fwd rxonly")
        before = now = self.received()
        self.start()
        settled = 0
        while settled < 5:
            time.sleep(0.02)
            last, now = now, self.received()
            settled = settled + 1 if now == last else 0
        self.stop()
        return now - before

    def received(self):
        return sum(port["rx_packets"] for port in self.port_stats())


class Guests(Loop):
    """Ports of virtio_user, at these sockets. options: of virtio_user (mrg_rxbuf, in_order, packed_vq, server, ...)."""

    def __init__(self, folder, name, sockets, *, cpu, queues=1, ring=256, options=None, args=()):
        ports = [{"path": path, "queues": queues, "queue_size": ring, **(options or {})} for path in sockets]
        super().__init__(folder, name, "net_virtio_user", ports, cpu=cpu, queues=queues,
                         args=(f"--rxd={ring}", f"--txd={ring}", *args))


class TapGuests(Loop):
    """Two taps on a Linux bridge, in a network namespace that goes with it: it is both guests, and in its system calls the bridge."""

    def __init__(self, folder, name, *, cpu):
        super().__init__(folder, name, "net_tap", [{"iface": f"guest{port}"} for port in (0, 1)], cpu=cpu,
                         within=("unshare", "--net"))
        self._run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        self._run("ip", "link", "add", "bridge", "type", "bridge")
        self._run("ip", "link", "set", "bridge", "up")
        for port in (0, 1):
            # Frames to the address of a bridge's own port go no further: it must not be the guest's.
            self._run("ip", "link", "set", f"guest{port}", "address", f"02:00:00:00:01:{port + 1:02x}",
                      "mtu", str(MTU), "master", "bridge", "up")

    def _run(self, *command):
        subprocess.run(["nsenter", f"--net=/proc/{self.process.pid}/ns/net", *command], check=True, capture_output=True)


class VhostSwitch(Testpmd):
    """Two net_vhost ports in io mode: what comes in at one goes out at the other.

    segmented: frames with segmentation offload pass, too, in mbufs of 16 KB: 4 to a frame, not 32.
    """

    def __init__(self, folder, name, sockets, *, cpu, main_cpu, queues=1, segmented=False):
        vdevs = [vdev("net_vhost", port, iface=path, queues=queues, **({"tso": 1} if segmented else {}))
                 for port, path in enumerate(sockets)]
        super().__init__(folder, name, vdevs, cpu=cpu, main_cpu=main_cpu, queues=queues, mbufs=3000 if segmented else 32768,
                         args=("--forward-mode=io", "--record-core-cycles", "--record-burst-stats",
                               *(["--mbuf-size=16384"] if segmented else [])))
