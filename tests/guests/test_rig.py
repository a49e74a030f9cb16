"""What people start by hand: the demo, and the QEMU that was unpacked. Run from the top of the source tree:
python3 -m tests.guests.test_rig build/ringway"""
import shlex
import shutil
import subprocess
import sys

from rig import check, demo, scratch, tap
from rig.host import wait_for
from rig.process import Process
from rig.switch import Switch

SECONDS = 60
MACHINE = ["-machine", "q35", "-device", "virtio-net-pci", "-display", "none", "-serial", "none", "-S", "-monitor", "stdio"]
STAGE = "import os; from rig.demo import step\nwith step('a stage'): os._exit(0)"


def plug_in(binary, folder):
    """What the demo says that is next, but for the disk: the machine's firmware then tries the network."""
    _, run, qemu, _ = demo.NEXT.format(binary=binary, accel="tcg").replace("/tmp/", f"{folder}/").split("\n\n")
    words = shlex.split(qemu.replace("-drive file=DISK,if=virtio", "").replace("\\\n", ""))
    switch = Switch(binary, folder, [word for word in shlex.split(run) if " vhost-user " in word])
    guest = Process(words, folder / "guest.log")
    try:
        wait_for(lambda: switch.port("vm1")["ingress"]["frames"] or guest.ended(), "a frame", SECONDS)
        check(not guest.ended(), guest.ended())
    finally:
        guest.kill()
        switch.kill()


def body(test, arguments):
    with test.test("without a terminal the demo tells each stage in a line, when it begins"):
        run = subprocess.run([sys.executable, "-c", STAGE], capture_output=True, text=True, timeout=SECONDS)
        check(run.stdout.endswith(" s  a stage\n"), f"{run}")
    with test.test("python3 -m rig.qemu is a QEMU that has its libraries and its firmware"):
        run = subprocess.run([sys.executable, "-m", "rig.qemu", *MACHINE], input="quit\n", capture_output=True, text=True,
                             timeout=SECONDS)
        check(run.returncode == 0 and not run.stderr, f"{run.returncode}: {run.stderr}")
    with test.test("what the demo says that is next plugs a machine in"):
        folder = scratch.folder("rig")
        try:
            plug_in(arguments.binary, folder)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    tap.main(__doc__, body)
