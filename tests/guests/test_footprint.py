"""What ringway takes from its host: no privilege, and no CPU time while the guests are quiet. Run from the top of the
source tree: python3 -m tests.guests.test_footprint build/ringway"""
import time
from pathlib import Path

from rig import RigError, tap, traffic
from rig.pair import Pair

IDLE_SECONDS = 10
IDLE_SHARE = 0.01  # of one core


def check_unprivileged(process):
    """Neither the user root nor a capability."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    if "0" in status["Uid"].split() or int(status["CapEff"], 16) or int(status["CapPrm"], 16):
        raise RigError(f"ringway runs as {status['Uid'].split()[0]} with capabilities {status['CapEff']}")


def body(test, arguments):
    with Pair(arguments.binary, unprivileged=True) as pair, test.reporting(pair.report):
        with test.test("guests talk through a ringway that runs as an ordinary user without a capability"):
            check_unprivileged(pair.switch.process)
            for way in pair.ways():
                traffic.ping(*way)
                traffic.transfer(*way)
        with test.test(f"ringway takes less than {IDLE_SHARE:.0%} of a core while two connected guests are quiet"):
            time.sleep(2)
            before = pair.switch.cpu_seconds()
            time.sleep(IDLE_SECONDS)
            share = (pair.switch.cpu_seconds() - before) / IDLE_SECONDS
            test.note(f"{share:.2%} of a core")
            if share > IDLE_SHARE:
                raise RigError(f"it took {share:.1%}")


if __name__ == "__main__":
    tap.main(__doc__, body)
