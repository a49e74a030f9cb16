"""Two guests plugged into each other through ringway, in a temporary folder that goes with them."""
import os
import shutil
import time

from rig import RigError, scratch, traffic
from rig.guest import Guest
from rig.switch import NOBODY, UNPRIVILEGED, Switch

LOG_LINES = 15
SETTLE_SECONDS = 5
# What ordinary guests may lose: to a receiver that is slow or not there yet, and on a queue they have just given up.
EXPLAINED = {"full", "port_down", "no_destination", "queue_disabled"}


class Plugged:
    """Two ends, the `guests`, by a `switch` or something else (None), in a `folder` that goes with them."""

    def switch_seconds(self):
        """CPU time of the switch; nothing where it is the kernel."""
        return self.switch.cpu_seconds() if self.switch else 0.0

    def close(self):
        for guest in self.guests:
            guest.close()
        if self.switch:
            self.switch.kill()
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Pair(Plugged):
    """Two guests and ringway. `settings` are each guest's arguments for Guest, such as {"queues": 2}; `connect` makes QEMU the
    server of the sockets."""

    def __init__(self, binary, settings=({}, {}), connect=False, unprivileged=False):
        self.settings = settings
        self.connect = connect
        self.folder = scratch.folder("pair")
        self.guests = []
        self.switch = None
        try:
            self._start(binary, unprivileged)
        except BaseException as error:
            if self.switch:
                error.add_note(self.report())
            self.close()
            raise

    def _start(self, binary, unprivileged):
        options = ()
        if unprivileged and os.getuid() == 0:
            options = UNPRIVILEGED
            binary = shutil.copy(binary, self.folder)  # the user may not be let into the checkout
            os.chown(self.folder, NOBODY, NOBODY)
        key = "connect" if self.connect else "listen"
        ports = [f"vm{number} vhost-user {key}={self._socket(number)}" for number in (1, 2)]
        self.switch = Switch(binary, self.folder, ports, options=options)
        for number in (1, 2):
            self.guests.append(self._guest(number))
        for guest in self.guests:
            guest.wait_boot()
        self.wait_reachable()

    def _socket(self, number):
        return self.folder / f"vm{number}.sock"

    def _guest(self, number):
        return Guest(number, self._socket(number), self.folder, server=self.connect, **self.settings[number - 1])

    def replace(self, number):
        """Kills a guest and boots another one on its port."""
        self.guests[number - 1].close()
        self.guests[number - 1] = self._guest(number)
        self.guests[number - 1].wait_boot()

    def wait_reachable(self, timeout=60):
        """Returns the seconds until both guests had an answer from the other."""
        return sum(traffic.wait_reachable(*way, timeout) for way in self.ways())

    def ways(self):
        """Both directions, as (sender, receiver)."""
        return [tuple(self.guests), tuple(reversed(self.guests))]

    def check_counters(self):
        """What one port takes in is what the other gives out or has dropped, for a reason that explains itself."""
        end = time.monotonic() + SETTLE_SECONDS
        while problem := self._counters_problem():
            if time.monotonic() > end:
                raise RigError(problem)
            time.sleep(0.2)

    def _counters_problem(self):
        """Differs for a moment while frames are on their way."""
        ports = self.switch.show("port")
        for source, target in (ports, reversed(ports)):
            taken, given = source["ingress"], target["egress"]
            strange = {*taken["dropped"], *given["dropped"]} - EXPLAINED
            if strange:
                return f"frames from {source['name']} to {target['name']} were dropped as {', '.join(sorted(strange))}"
            sent = taken["frames"] - taken["dropped"].get("no_destination", 0)
            accounted = given["frames"] + sum(given["dropped"].values())
            if sent != accounted:
                return f"{source['name']} sent {sent} frames, {target['name']} accounts for {accounted}"
        return None

    def report(self):
        """The state of everything, for a person who reads a failure."""
        parts = []
        for guest in self.guests:
            parts += [f"{guest.name}: {guest.process.ended() or 'QEMU runs'}; its console:",
                      guest.console_tail(LOG_LINES)]
        parts += [f"ringway: {self.switch.process.ended() or 'runs'}; its log:", self.switch.process.tail(LOG_LINES),
                  self.switch.table("port"), self.switch.table("queue")]
        return "\n".join(parts)
