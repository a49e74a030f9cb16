"""What people start by hand: the demo, and the QEMU that was unpacked. Run from the top of the source tree:
python3 -m tests.guests.test_rig build/ringway"""
import subprocess
import sys

from rig import check, tap

SECONDS = 60
MACHINE = ["-machine", "q35", "-device", "virtio-net-pci", "-display", "none", "-serial", "none", "-S", "-monitor", "stdio"]
STAGE = "import os; from rig.demo import step\nwith step('a stage'): os._exit(0)"


def body(test, _):
    with test.test("without a terminal the demo tells each stage in a line, when it begins"):
        run = subprocess.run([sys.executable, "-c", STAGE], capture_output=True, text=True, timeout=SECONDS)
        check(run.stdout.endswith(" s  a stage\n"), f"{run}")
    with test.test("python3 -m rig.qemu is a QEMU that has its libraries and its firmware"):
        run = subprocess.run([sys.executable, "-m", "rig.qemu", *MACHINE], input="quit\n", capture_output=True, text=True,
                             timeout=SECONDS)
        check(run.returncode == 0 and not run.stderr, f"{run.returncode}: {run.stderr}")


if __name__ == "__main__":
    tap.main(__doc__, body)
