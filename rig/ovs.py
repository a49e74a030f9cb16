"""Open vSwitch with DPDK as a switch between two guests: processes, database and sockets of its own, no service.

Without hugepages it needs --legacy-mem and much of it, or guests silently get nothing. Mbufs for each port are far fewer than
for all ports alike, which without hugepages take so long to make that guests give up. It makes a tap for each bridge,
hence a network namespace of its own. Its polling thread has a CPU all the time: let it `rest` while others are measured.
"""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from rig import RigError, fetch
from rig.process import Process

MEMORY_MB = 1024
READY_SECONDS = 60
BRIDGE = "br0"
USUAL_MTU = 1500


class OvsDpdk:
    """A bridge with the normal action (it learns addresses), and two ports of dpdkvhostuser; guests say how many queues."""

    def __init__(self, folder, *, cpu, main_cpu):
        self.peers = fetch.open_vswitch()
        self.folder = Path(folder)
        self.sockets = [self.folder / f"vm{port}" for port in (1, 2)]
        self.env = {**self.peers.env, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder),
                    "OVS_SYSCONFDIR": str(folder), "RUNTIME_DIRECTORY": str(folder)}
        self.control = self.folder / "vswitchd.ctl"
        self.database = f"unix:{self.folder}/db.sock"
        self.mtu = USUAL_MTU
        self.processes = []
        try:
            self._start_database()
            self._configure(cpu, main_cpu)
            self.switch = self._start("unshare", "--net", self.peers.daemon(), self.database, "--unixctl", self.control)
            self._vsctl("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev")
            self._add_ports()
        except BaseException:
            self.close()
            raise

    def _start(self, *command):
        process = Process(command, self.folder / f"{Path(command[0]).name}.log", env=self.env)
        self.processes.append(process)
        return process

    def _run(self, program, *words, timeout=READY_SECONDS):
        command = [self.peers.tool(program), *map(str, words)]
        try:
            run = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RigError(f"{program} {words[0]} took more than {timeout} s; see {self.folder}") from None
        if run.returncode:
            raise RigError(f"{program}: {(run.stderr.strip() or 'failed').splitlines()[-1]}")
        return run.stdout

    def _vsctl(self, *words):
        return self._run("ovs-vsctl", f"--db={self.database}", *words)

    def _start_database(self):
        file = self.folder / "conf.db"
        self._run("ovsdb-tool", "create", file, self.peers.schema())
        server = self._start(self.peers.tool("ovsdb-server"), file, f"--remote=p{self.database}",
                             "--unixctl", self.folder / "ovsdb.ctl")
        self._wait(lambda: (self.folder / "db.sock").exists(), server, "its socket")

    def _configure(self, cpu, main_cpu):
        self._vsctl("--no-wait", "init")
        extra = f"--no-huge --legacy-mem -m {MEMORY_MB} --no-pci --file-prefix=ovs-{self.folder.name}"
        for setting in ("per-port-memory=true", "dpdk-init=true", f"dpdk-extra={extra}", f"pmd-cpu-mask={1 << cpu:#x}",
                        f"dpdk-lcore-mask={1 << main_cpu:#x}"):
            key, _, value = setting.partition("=")
            self._vsctl("--no-wait", "set", "Open_vSwitch", ".", f'other_config:{key}="{value}"')

    def _add_ports(self):
        """ovs-vsctl waits until the switch has done it."""
        for path in self.sockets:
            self._vsctl("add-port", BRIDGE, path.name, "--", "set", "Interface", path.name, "type=dpdkvhostuser",
                        f"mtu_request={self.mtu}")
        self._wait(lambda: all(path.exists() for path in self.sockets), self.switch, "ports")

    def set_mtu(self, mtu):
        """Of both ports, while there are no guests. New ports, as it takes up no other MTU where a guest has been."""
        if mtu != self.mtu:
            self.mtu = mtu
            for path in self.sockets:
                self._vsctl("del-port", BRIDGE, path.name)
            self._add_ports()

    def _wait(self, condition, process, what):
        end = time.monotonic() + READY_SECONDS
        while not condition():
            if process.ended():
                raise RigError(process.ended())
            if time.monotonic() > end:
                raise RigError(f"{process.name}: no {what} within {READY_SECONDS} s: {process.tail(1)}")
            time.sleep(0.05)

    def rest(self):
        self.switch.signal(signal.SIGSTOP)

    def wake(self):
        self.switch.signal(signal.SIGCONT)

    def stats(self):
        """Of the polling threads since the start: cycles that had packets, packets, and batches sent."""
        text = self._run("ovs-appctl", "-t", self.control, "dpif-netdev/pmd-stats-show")
        def total(what):
            return sum(map(int, re.findall(rf"{what}: (\d+)", text)))
        packets = total("packets received")
        batch = re.search(r"avg\. packets per output batch: ([\d.]+)", text)
        return total("processing cycles"), packets, int(packets / float(batch.group(1))) if batch and packets else 0

    def cpu_seconds(self):
        return sum(process.cpu_seconds() for process in self.processes if not process.ended())

    def close(self):
        for process in reversed(self.processes):
            process.signal(signal.SIGCONT)
            process.stop()


def missing():
    """Why it cannot run here, or None."""
    if os.geteuid():
        return "it takes a network namespace of its own: become root"
    for program in ("unshare", "setpriv"):
        if not shutil.which(program):
            return f"{program} not found: install the package util-linux"
    return None
