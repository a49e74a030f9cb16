"""ringway is killed and started again under traffic. Run from the top of the source tree:
python3 -m tests.guests.test_restart build/ringway"""
import time

from rig import RigError, tap, traffic
from rig.pair import Pair

KILLS = 2
APART_SECONDS = 3


def kill_under_traffic(pair, sender, receiver):
    """A TCP stream that is under way all the time must arrive unchanged."""
    under_way = traffic.Transfer(sender, receiver, pause=0.15)
    for _ in range(KILLS):
        time.sleep(APART_SECONDS)
        if under_way.sending.done.is_set():
            raise RigError("the transfer ended before the switch was killed")
        pair.switch.kill()
        time.sleep(1)
        pair.switch.start()
    under_way.finish()


def body(test, arguments):
    for connect in (False, True):
        server = "QEMU" if connect else "ringway"
        with Pair(arguments.binary, connect=connect) as pair, test.reporting(pair.report):
            for sender, receiver in pair.ways():
                with test.test(f"a TCP stream from {sender.name} survives that ringway is killed, "
                               f"{server} being the sockets' server"):
                    kill_under_traffic(pair, sender, receiver)
            with test.test(f"after a restart a guest that has sent nothing receives, {server} being the server"):
                pair.switch.kill()
                pair.switch.start()
                test.note(f"after {pair.wait_reachable():.1f} s")
                pair.check_counters()


if __name__ == "__main__":
    tap.main(__doc__, body)
