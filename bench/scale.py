"""A switch of many ports: how long it takes to start, what a port costs in memory, and what silence costs in CPU time.

The guests are drivers in a process of their own, which say nothing once they are known. CPU time is that of the switch's
threads, in nanoseconds, as the scheduler counts it.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rig import RigError, scratch  # noqa: E402
from rig.switch import Switch  # noqa: E402


def threads_seconds(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def private_kib(pid):
    """Without guests' memory, which is shared."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return sum(int(line[1]) for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:"))


class Many:
    """A switch with `n` ports."""

    def __init__(self, binary, n):
        self.folder = scratch.folder("scale")
        self.sockets = [self.folder / f"p{i}.sock" for i in range(n)]
        config = self.folder / "ringway.conf"
        config.write_text("".join(f"port add p{i} vhost-user listen={path}\n" for i, path in enumerate(self.sockets)))
        begin = time.monotonic()
        self.switch = Switch(binary, self.folder, (), ["-f", config])
        self.seconds = time.monotonic() - begin
        self.pid = self.switch.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.switch.kill()
        shutil.rmtree(self.folder)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def idle_percent(self, seconds):
        time.sleep(2)
        before = threads_seconds(self.pid)
        time.sleep(seconds)
        return (threads_seconds(self.pid) - before) / seconds * 100


class Guests:
    """Idle ones, until it is closed."""

    def __init__(self, program, sockets):
        self.child = subprocess.Popen([program, *map(str, sockets)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.child.stdout.readline() != "ready\n":
            raise RigError("the guests did not get through")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--ports", type=int, default=1000)
    parser.add_argument("--guests", type=int, nargs="+", default=[2, 64])
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    binary, program = arguments.build / "ringway", (arguments.build / "bench/idle_guests").resolve()
    with Many(binary, 1) as one:
        start, memory = one.seconds, private_kib(one.pid)
    with Many(binary, arguments.ports) as many:
        unconnected = (private_kib(many.pid) - memory) / (arguments.ports - 1)
        print(f"start-up            {many.seconds * 1000:8.0f} ms with {arguments.ports} ports, {start * 1000:.0f} with 1")
        print(f"descriptors         {many.descriptors():8}")
        print(f"port, unconnected   {unconnected:8.1f} KiB")
        print(f"idle, no guests     {many.idle_percent(arguments.seconds):8.3f} % of a CPU")
        before, descriptors = private_kib(many.pid), many.descriptors()
        for n in arguments.guests:
            with Guests(program, many.sockets[:n]):
                port = (private_kib(many.pid) - before) / n + unconnected
                each = (many.descriptors() - descriptors) / n
                print(f"port, connected     {port:8.1f} KiB, {each:.0f} descriptors more; {n} guests")
                print(f"idle, {n:2} guests     {many.idle_percent(arguments.seconds):8.3f} % of a CPU")
        if not many.switch.stop():
            raise RigError("the switch did not end well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
