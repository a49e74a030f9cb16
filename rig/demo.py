"""Shows the switch at work: two real virtual machines talk through it, and what that cost is told."""
import argparse
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from rig import RigError, fetch, guest, traffic
from rig.pair import Pair

SECONDS = 20  # of TCP in each direction
DEADLINE = 180  # seconds after set-up, whatever happens
GIB = 1 << 30
STARTED = time.monotonic()
NEXT = """
  Next, a virtual machine of your own, from its disk image DISK, and a switch for it, in a terminal each:

    {binary} run --port 'vm1 vhost-user listen=/tmp/vm1.sock' --port 'vm2 vhost-user listen=/tmp/vm2.sock'

    python3 -m rig.qemu -accel {accel} -m 1G -nographic -drive file=DISK,if=virtio \\
      -object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem \\
      -chardev socket,id=vu,path=/tmp/vm1.sock,reconnect-ms=1000 -netdev vhost-user,id=net0,chardev=vu \\
      -device virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01

  Each machine wants a mac= and a path= of its own. README.md has more, and what to say to libvirt."""


@contextmanager
def step(text):
    """Says what goes on, and on a terminal afterwards how long it took. Elsewhere half a line might not be seen."""
    if not sys.stdout.isatty():
        print(f"  {time.monotonic() - STARTED:5.1f} s  {text}", flush=True)
        yield
        return
    print(f"  {text:<58}", end="", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:7.1f} s", flush=True)


def rings(switch, port, direction):
    """Sums over one direction of a port's rings."""
    queues = switch.queues(port, direction)
    return {key: sum(queue[key] for queue in queues) for key in ("frames", "kicks", "calls")}


def dropped(switch, sender, receiver):
    """Frames of the sender that went no further, and frames to the receiver that did not reach it."""
    return sum(sum(switch.port(guest.name)[side]["dropped"].values())
               for guest, side in ((sender, "ingress"), (receiver, "egress")))


def snapshot(switch, sender, receiver):
    """(frames sent, kicks, frames received, calls, frames dropped, CPU seconds) so far."""
    sent, received = rings(switch, sender.name, "tx"), rings(switch, receiver.name, "rx")
    return (sent["frames"], sent["kicks"], received["frames"], received["calls"], dropped(switch, sender, receiver),
            switch.cpu_seconds())


def measure(pair, sender, receiver):
    """TCP one way; returns what the table shows of it."""
    before = snapshot(pair.switch, sender, receiver)
    stream = traffic.iperf(sender, receiver, SECONDS)
    after = snapshot(pair.switch, sender, receiver)
    sent, kicks, received, calls, lost, cpu = (new - old for new, old in zip(after, before))
    return {
        "Gbit/s": f"{stream.gbits:.2f}",
        "TCP retransmits": stream.retransmits,
        "frames from the sender": sent,
        "kicks (VM exits) of the sender": kicks,
        "frames per kick": f"{sent / max(kicks, 1):.1f}",
        "frames to the receiver": received,
        "calls (interrupts) to the receiver": calls,
        "frames per call": f"{received / max(calls, 1):.1f}",
        "frames dropped": lost,
        "CPU seconds of the switch per GiB": f"{cpu / (stream.bytes / GIB):.2f}",
    }


def print_table(columns):
    """`columns` maps a heading to its figures."""
    print(f"\n  {'':<36}" + "".join(f"{heading:>16}" for heading in columns))
    for name in next(iter(columns.values())):
        print(f"  {name:<36}" + "".join(f"{figures[name]:>16}" for figures in columns.values()))


def set_up():
    """What there is to say of the guests' CPUs: why they are emulated, or None."""
    peers = fetch.peers()
    with step("trying whether KVM works here"):
        why = guest.why_no_kvm(peers)
    if why:
        print(f"  it does not: {why}; the guests are emulated (TCG)")
    return why


def show(binary, why_no_kvm):
    with step(f"starting ringway and two guests ({'TCG' if why_no_kvm else 'KVM'})"):
        pair = Pair(binary)
    with pair:
        columns = {}
        for sender, receiver in pair.ways():
            way = f"{sender.name} -> {receiver.name}"
            with step(f"{way}: ping"):
                traffic.ping(sender, receiver)
            with step(f"{way}: small UDP messages, one at a time"):
                trip = traffic.round_trips(sender, receiver)
            with step(f"{way}: TCP for {SECONDS} s"):
                columns[way] = measure(pair, sender, receiver)
            columns[way]["round trip, median us"] = f"{trip:.0f}"
        print_table(columns)
        if why_no_kvm:
            print("\n  Without KVM the guests are emulated in software: these figures measure the emulator.")


def out_of_time(*_):
    raise RigError(f"not at the end after {DEADLINE} s: is the machine busy? try again")


def main():
    parser = argparse.ArgumentParser(prog="python3 -m rig.demo", description="Boot two guests on two vhost-user "
                                     "ports of ringway and show what passes between them.")
    parser.add_argument("--binary", default="build/ringway", help="the ringway to run (default %(default)s)")
    binary = parser.parse_args().binary
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("\ndemo: ended from outside"))
    signal.signal(signal.SIGALRM, out_of_time)
    try:
        print("Two virtual machines, plugged into each other by ringway:", flush=True)
        why_no_kvm = set_up()
        signal.alarm(DEADLINE)
        show(binary, why_no_kvm)
    except KeyboardInterrupt:
        sys.exit("\ndemo: interrupted")
    except (RigError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"\ndemo: {error}")
    print(f"\n  all worked, {time.monotonic() - STARTED:.0f} s in all")
    print(NEXT.format(binary=binary, accel="tcg" if why_no_kvm else "kvm"))


if __name__ == "__main__":
    main()
