"""DPDK's testpmd as two guests: another driver than ours and Linux's. Run from the top of the source tree:
python3 -m tests.guests.test_testpmd build/ringway

A fixed number of frames goes to and fro between its two ports. Whatever is lost on the way is missing when the frames
are taken out at the end, and whatever was counted wrongly shows where the switch's counters meet the driver's."""
import json
import tempfile
import time
from pathlib import Path

from rig import check, tap
from rig.switch import Switch
from rig.testpmd import Guests, missing

LOOP_SECONDS = 0.5
UP_SECONDS = 5
SIZE = 256
# DPDK has a path of its own for each; in_order is its default.
DEVICES = [*(({"packed_vq": packed, "mrg_rxbuf": mergeable, "in_order": 1}, queues)
             for packed in (0, 1) for mergeable in (1, 0) for queues in (1, 4)),
           *(({"packed_vq": packed, "mrg_rxbuf": mergeable, "in_order": 0}, 1)
             for packed in (0, 1) for mergeable in (1, 0))]


class Loop:
    """The switch with testpmd's two ports plugged into it."""

    def __init__(self, binary, folder, device, queues, connect=False):
        self.queues = queues
        self.names = ["vm1", "vm2"]
        sockets = [Path(folder) / f"{name}.sock" for name in self.names]
        key = "connect" if connect else "listen"
        self.switch = Switch(binary, folder,
                             [f"{name} vhost-user {key}={path}" for name, path in zip(self.names, sockets)])
        try:
            # A flow for each frame, so that all queues are used.
            self.guests = Guests(folder, "guests", sockets, cpu=0, queues=queues,
                                 options={**device, "server": 1} if connect else device,
                                 args=["--txonly-multi-flow"])
        except BaseException:
            self.switch.stop()
            raise

    def close(self):
        self.guests.close()
        self.switch.stop()

    def ports(self):
        return [self.switch.port(name) for name in self.names]

    def states(self):
        return [f"{port['name']} {port['state']} {port['reason']}".strip() for port in self.ports()]

    def wait_up(self):
        end = time.monotonic() + UP_SECONDS
        while not all(port["state"] == "up" and port["queue_pairs"] == self.queues for port in self.ports()):
            check(time.monotonic() < end, f"not up with {self.queues} queue pairs: {', '.join(self.states())}")
            time.sleep(0.05)

    def run(self, pause=False):
        """Lets frames go round, then takes them out: all must be there, and must have moved."""
        received = self.guests.received()
        under_way = self.guests.start_loop(size=SIZE)
        self.check_moving(received + 10 * under_way)
        if pause:
            self.guests.stop()
            received = self.guests.received()
            self.guests.start()
            self.check_moving(received + 10 * under_way)
        self.guests.stop()
        left = self.guests.drain()
        check(left == under_way, f"{under_way} frames went in, {left} came out")

    def check_moving(self, enough):
        """Frames go round: that many are received in all."""
        time.sleep(LOOP_SECONDS)
        received = self.guests.received()
        check(received > enough, f"the frames do not go round: {received} received, of {enough} at the least")

    def run_anew(self):
        """After a restart, when one of the two sides counts from 0."""
        since = self.counts()
        self.run()
        self.check_ports(since)

    def counts(self):
        """Per port and direction (the switch's counts, the driver's), both as (frames, bytes)."""
        return {(port["name"], side): ((port[side]["frames"], port[side]["bytes"]),
                                       (guest[f"{way}_packets"], guest[f"{way}_bytes"]))
                for guest, port in zip(self.guests.port_stats(), self.ports())
                for way, side in (("tx", "ingress"), ("rx", "egress"))}

    def check_ports(self, since=None):
        """What one driver sent, the switch took in; what the switch gave out, the other driver got; none dropped."""
        for key, both in self.counts().items():
            before = since[key] if since else ((0, 0), (0, 0))
            switch, driver = ([now - then for now, then in zip(*pair)] for pair in zip(both, before))
            check(switch == driver, f"{' '.join(key)}: frames and bytes: the switch {switch}, the driver {driver}")
        for port in self.ports():
            for side in ("ingress", "egress"):
                dropped = {reason: n for reason, n in port[side]["dropped"].items() if n}
                check(not dropped, f"{port['name']} {side} dropped {dropped}")

    def check_queues(self):
        """The rings' counters add up to the port's, and every ring that sends was used."""
        for port in self.ports():
            for direction, side in (("tx", "ingress"), ("rx", "egress")):
                frames = [queue["frames"] for queue in self.switch.queues(port["name"], direction)]
                check(len(frames) == self.queues, f"{port['name']} shows {len(frames)} {direction} rings")
                check(sum(frames) == port[side]["frames"],
                      f"{port['name']}: {direction} rings counted {frames}, {side} {port[side]['frames']}")
                check(direction == "rx" or all(frames), f"{port['name']}: idle tx rings: {frames}")

    def restart_ports(self):
        before = [port["features"] for port in self.ports()]
        self.guests.renegotiate(len(self.names))
        self.wait_up()
        check(all(port["features"] != old for port, old in zip(self.ports(), before)), "no new features were agreed to")

    def restart_switch(self):
        """The guests live on, with rings that have moved on: testpmd asks for them to start at 0 all the same."""
        self.switch.kill()
        self.switch.start()
        self.wait_up()

    def report(self):
        rows = self.switch.show("port") + self.switch.show("queue") if not self.switch.process.ended() else []
        return "\n".join(["ringway:", *map(json.dumps, rows), "its log:", self.switch.process.tail(15)])


def try_device(test, binary, device, queues, connect=False):
    name = ", ".join([f"{key}={value}" for key, value in device.items()] +
                     [f"{queues} queue pair{'s' * (queues > 1)}"] + ["testpmd is the server"] * connect)
    with tempfile.TemporaryDirectory(prefix="ringway-") as folder, \
         test.subject(f"{name}: ports come up", lambda: Loop(binary, folder, device, queues, connect), Loop.wait_up) as loop:
        if loop:
            with test.test(f"{name}: every frame comes back, after a stop and a start too"):
                loop.run(pause=True)
            with test.test(f"{name}: ports count what the drivers count"):
                loop.check_ports()
            with test.test(f"{name}: rings add up to ports"):
                loop.check_queues()
            with test.test(f"{name}: ports stop and start again"):
                loop.restart_ports()
                loop.run_anew()
            if connect:
                with test.test(f"{name}: the switch is killed and starts again"):
                    loop.restart_switch()
                    loop.run_anew()


def body(test, arguments):
    why = missing()
    if why:
        return test.skip("testpmd's frames", why)
    for device, queues in DEVICES:
        try_device(test, arguments.binary, device, queues)
    try_device(test, arguments.binary, {"mrg_rxbuf": 1}, 1, connect=True)


if __name__ == "__main__":
    tap.main(__doc__, body)
