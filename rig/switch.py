"""Starts ringway, asks it for its figures, and ends it."""
import json
import os
import subprocess
import time
from pathlib import Path

from rig import RigError
from rig.process import Process

READY_SECONDS = 20
SHOW_SECONDS = 10
NOBODY = 65534
UNPRIVILEGED = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--no-new-privs", "--inh-caps=-all",
                "--bounding-set=-all"]


class Switch:
    """`ports` are words as after --port. `options` are setpriv's, such as UNPRIVILEGED."""

    def __init__(self, binary, folder, ports, arguments=(), options=()):
        self.binary = Path(binary).resolve()
        if not os.access(self.binary, os.X_OK):
            raise RigError(f"no program at {binary}: run 'make' first")
        self.control = Path(folder) / "control.sock"
        self.log = Path(folder) / "ringway.log"
        self.options = options
        self.command = [self.binary, "run", "--control", self.control, *arguments]
        for port in ports:
            self.command += ["--port", port]
        self.start()

    def start(self):
        """Returns when the switch answers."""
        self.process = Process(self.command, self.log, options=self.options)
        end = time.monotonic() + READY_SECONDS
        while not self.answers():
            if self.process.ended():
                raise RigError(self.process.ended())
            if time.monotonic() > end:
                self.process.kill()
                raise RigError(f"ringway did not answer within {READY_SECONDS} s; see '{self.binary} run --help'")
            time.sleep(0.05)

    def _ask(self, *words):
        return subprocess.run([self.binary, "show", *words, "--control", self.control],
                              capture_output=True, text=True, timeout=SHOW_SECONDS)

    def answers(self):
        return self._ask("port").returncode == 0

    def table(self, what):
        """What `show` prints for people."""
        run = self._ask(what)
        return run.stdout or run.stderr

    def show(self, what):
        """All objects of a kind: 'port', 'queue', 'worker', 'fdb' or 'feature'."""
        run = self._ask(what, "--json")
        if run.returncode:
            raise RigError(f"show {what} failed: {run.stderr.strip()}")
        return next(iter(json.loads(run.stdout).values()))

    def port(self, name):
        return next(port for port in self.show("port") if port["name"] == name)

    def queues(self, port, direction=None):
        """The port's rings, 'tx' being those from the guest to the switch."""
        return [queue for queue in self.show("queue")
                if queue["port"] == port and direction in (None, queue["direction"])]

    def cpu_seconds(self):
        return self.process.cpu_seconds()

    def kill(self):
        self.process.kill()

    def stop(self):
        return self.process.stop()
