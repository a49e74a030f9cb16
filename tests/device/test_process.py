#!/usr/bin/env python3
"""The switch as a process among others: limits, descriptors, signals, a log that nobody reads."""
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig import check
from rig.tap import main
from tests.device.test_cli import NOBODY, Place, end, wait_for

MIB = 1 << 20
SHOW_PORT = b'{"jsonrpc": "2.0", "id": 1, "method": "show.port"}\n'
# Under a limit the leak checker could not start its own thread.
NO_LEAK_CHECK = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


def holds(binary, *names):
    program = Path(binary).read_bytes()
    return any(name in program for name in names)


def sanitized(binary):
    return holds(binary, b"__asan_init", b"__tsan_init")


def instrumented(binary):
    return sanitized(binary) or holds(binary, b"__gcov_exit")


def test_limits(tap, place):
    name = "too little address space is told in one line with the remedy, not by an abort"
    if instrumented(place.binary):
        tap.skip(name, "a sanitizer needs terabytes of address space, and branch counters some at the end")
    else:
        with tap.test(name):
            refused = 0
            for size in range(4, 40, 2):
                command = [place.binary, "run", "--workers", "2", "--control", place.control, "--port",
                           f"vm1 vhost-user listen={place.folder}/vm1.sock"]
                switch = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda:
                                          resource.setrlimit(resource.RLIMIT_AS, (size * MIB, size * MIB)))
                try:
                    said = switch.communicate(timeout=0.5)[1]
                except subprocess.TimeoutExpired:
                    switch.terminate()
                    switch.communicate()
                    check(switch.returncode == 0, f"with {size} MiB it ran, but ended with {switch.returncode}")
                    break
                if switch.returncode == 127:
                    continue  # too little for its libraries, which the loader says
                refused += 1
                check(switch.returncode == 1 and said.count("\n") == 1 and "ulimit" in said,
                      f"{size} MiB: status {switch.returncode}: {said}")
                check(not place.names(), f"it left {place.names()}")
            check(refused and refused < 18, f"{refused} sizes of 18 were too small")
    name = "a limit of processes is told in one line with the remedy"
    if os.getuid():
        tap.skip(name, "needs root")
        return
    with tap.test(name):
        binary = shutil.copy(place.binary, place.folder)
        os.chmod(place.folder, 0o777)
        for n in range(1, 4):
            run = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", "prlimit", f"--nproc={n}",
                                  binary, "run", "--workers", "4", "--control", str(place.control)],
                                 env=NO_LEAK_CHECK, capture_output=True, text=True, timeout=30)
            check(run.returncode == 1 and run.stderr.count("\n") == 1 and "ulimit -u" in run.stderr, f"{n}: {run}")
        os.unlink(binary)


def test_descriptors(tap, place):
    with tap.test("a descriptor is one port's, and must have been inherited"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            number = theirs.fileno()
            port = f"vhost-user fd={number}"
            said = place.expect(1, "run", "--port", f"vm1 {port}", "--port", f"vm2 {port}", pass_fds=[number])
            check("vm2" in said and "another port has it" in said, said)
            for own in range(3, 20):
                if own == number:
                    continue
                for kind in ("vhost-user", "tap"):
                    said = place.expect(1, "run", "--port", f"vm1 {kind} fd={own}", pass_fds=[number])
                    check("not inherited" in said, said)
        check(not place.names(), f"it left {place.names()}")
    with tap.test("standard input, output and error may be closed"):
        def close_all():
            for number in range(3):
                os.close(number)
        for _ in range(2):
            switch = subprocess.Popen([place.binary, "run", "--control", place.control, "--port",
                                       f"vm1 vhost-user listen={place.folder}/vm1.sock"], preexec_fn=close_all)
            place.switches.append(switch)
            wait_for(lambda: place.call("show").returncode == 0, "an answer")
            for number in range(3):
                target = os.readlink(f"/proc/{switch.pid}/fd/{number}")
                check(target == "/dev/null", f"{number} is {target}")
            status, _ = end(switch)
            check(status == 0, f"it ended with {status}")


def limit_descriptors(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(control):
    """What a client that is connected already is told of the ports."""
    control.sendall(SHOW_PORT)
    with control.makefile() as answer:
        return answer.readline()


def test_few_descriptors(tap, place):
    ports = [word for n in range(100) for word in ("--port", f"p{n} vhost-user listen={place.folder}/p{n}.sock")]
    with tap.test("the limit of descriptors is raised as far as that may be"):
        switch = place.start(*ports, preexec_fn=limit_descriptors(32, 400))
        end(switch)
    with tap.test("too few descriptors are told in one line with the remedy"):
        refused = 0
        for limit in range(8, 150, 4):  # with less libuv aborts
            command = [place.binary, "run", "-q", "--workers", "2", "--control", place.control, *ports]
            switch = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=limit_descriptors(limit, limit))
            try:
                said = switch.communicate(timeout=10)[1]  # which the one that runs takes
            except subprocess.TimeoutExpired:
                switch.terminate()
                switch.communicate()
                break
            if switch.returncode == 127:
                continue  # too little for the loader
            refused += 1
            check(switch.returncode == 1 and said.count("\n") == 1 and "ulimit -Hn" in said, f"{limit}: {said}")
            check(not place.names(), f"it left {place.names()}")
        check(refused > 20 and limit > 100, f"{refused} limits were too low, and {limit} enough")
    with tap.test("a front-end for which none is left waits until there is"):
        switch = place.start(*ports[:2])
        with socket.socket(socket.AF_UNIX) as control, socket.socket(socket.AF_UNIX) as client:
            control.settimeout(10)
            control.connect(str(place.control))
            ask(control)  # has its descriptor from now on
            used = len(os.listdir(f"/proc/{switch.pid}/fd"))
            resource.prlimit(switch.pid, resource.RLIMIT_NOFILE, (used, used + 100))
            client.connect(str(place.folder / "p0.sock"))
            wait_for(lambda: "ulimit -Hn" in ask(control), "the remedy")
            resource.prlimit(switch.pid, resource.RLIMIT_NOFILE, (used + 100, used + 100))
            wait_for(lambda: place.show("port")[0]["state"] == "connected", "the session")
        end(switch)
    with tap.test("clients for whom none is left wait until there is, and nobody waits with them"):
        switch = place.start()
        used = len(os.listdir(f"/proc/{switch.pid}/fd"))
        resource.prlimit(switch.pid, resource.RLIMIT_NOFILE, (used + 2, used + 100))
        clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for client in clients:
            client.settimeout(10)
            client.connect(str(place.control))
            client.sendall(SHOW_PORT)
        time.sleep(0.2)
        for client in clients:  # the first of them have their answers, and give their descriptors back
            check(b"ports" in client.recv(1000), "it does not answer")
            client.close()
        end(switch)


def test_signals(tap, place):
    port = f"vm1 vhost-user listen={place.folder}/vm1.sock"
    with tap.test("the end of its terminal ends it well"):
        switch = place.start("--port", port)
        status, _ = end(switch, signal.SIGHUP)
        check(status == 0 and not place.names(), f"status {status}, it left {place.names()}")
    with tap.test("unless it was started to outlive that"):
        switch = place.start("--port", port, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        switch.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        check(len(place.show("port")) == 1, "it does not answer")
        end(switch)
    name = "a signal at any moment of its start leaves no files behind"
    if holds(place.binary, b"__tsan_init"):
        tap.skip(name, "the thread sanitizer keeps back a signal that liburcu's thread happens to get")
        return
    with tap.test(name):
        ports = [word for n in range(100) for word in ("--port", f"p{n} vhost-user listen={place.folder}/p{n}.sock")]
        for number in range(40):
            switch = subprocess.Popen([place.binary, "run", "-q", "--control", place.control, *ports])
            place.switches.append(switch)
            if number < 20:
                time.sleep(0.001 * number)
            else:
                while not place.control.exists():
                    pass
            end(switch)
            check(not place.names(), f"it left {place.names()}")


def test_log(tap, place):
    port = f"vm1 vhost-user listen={place.folder}/vm1.sock"
    with tap.test("a log that nobody reads stops nothing, and the loss is told"):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        switch = subprocess.Popen([place.binary, "run", "--control", place.control, "--port", port], stderr=writer)
        place.switches.append(switch)
        wait_for(lambda: place.call("show").returncode == 0, "an answer")
        place.expect(0, "port", "set", "vm1", "mtu=1500")
        os.read(reader, 1 << 20)
        place.expect(0, "port", "set", "vm1", "mtu=1400")
        status, seconds = end(switch)
        check(status == 0, f"it ended with {status}")
        os.close(writer)
        said = os.read(reader, 1 << 20).decode()
        os.close(reader)
        check("lines lost" in said and "set: " in said and "mtu=1500" not in said, said)
    with tap.test("a log that cannot be written stops nothing"):
        with open("/dev/full", "w") as full:
            switch = subprocess.Popen([place.binary, "run", "--control", place.control, "--port", port], stderr=full)
            place.switches.append(switch)
            wait_for(lambda: place.call("show").returncode == 0, "an answer")
            status, _ = end(switch)
            check(status == 0, f"it ended with {status}")
    name = "a limit of file sizes ends neither the switch for its log, nor a command without a word"
    if holds(place.binary, b"__tsan_init", b"__gcov_exit"):
        tap.skip(name, "the thread sanitizer makes files of its own at the start, and branch counters at the end")
        return
    with tap.test(name):
        def no_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        switch = place.start("--port", port, preexec_fn=no_files)
        place.expect(0, "port", "set", "vm1", "mtu=1500")
        with open(place.log, "w") as out:
            save = subprocess.run([place.binary, "save", "--control", place.control], stdout=out, text=True,
                                  stderr=subprocess.PIPE, timeout=30, preexec_fn=no_files)
        check(save.returncode == 1 and "File too large" in save.stderr, str(save))
        sockets = f"{place.folder}/vm1.sock", f"{place.folder}/vm2.sock"
        said = place.expect(1, "bench", "load", "--a", sockets[0], "--b", sockets[1], control=False,
                            preexec_fn=no_files)
        check("File too large" in said, said)
        status, _ = end(switch)
        check(status == 0, f"it ended with {status}")


def log_of(place, *words):
    """What a switch says while one front-end comes and goes well, one says nothing, and one speaks another version."""
    sock = place.folder / "vm1.sock"
    log = place.folder / "log"
    with open(log, "w") as stderr:
        switch = subprocess.Popen([place.binary, "run", "--control", place.control, "--port",
                                   f"vm1 vhost-user listen={sock}", *words], stderr=stderr)
        place.switches.append(switch)
        wait_for(lambda: place.call("show").returncode == 0, "an answer")
        get_features, nonsense = struct.pack("<III", 1, 1, 0), struct.pack("<III", 1, 2, 0)
        for message in (get_features, b"", nonsense):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(sock))
                client.sendall(message)
                if message:
                    client.recv(100)
            wait_for(lambda: place.show("port")[0]["state"] == "waiting", "the end of the session")
        end(switch)
    lines = log.read_text().splitlines()
    log.unlink()
    check(all(re.fullmatch(r"(error|warn|info|debug) (vm1|ringway): .+", line) for line in lines), str(lines))
    return lines


def test_levels(tap, place):
    with tap.test("a session that breaks the rules is one warning, and one that ends well is none"):
        lines = log_of(place)
        check([line for line in lines if line.startswith(("warn", "error"))] ==
              ["warn vm1: session ended: GET_FEATURES (1): protocol version 2 instead of 1"], str(lines))
        check(any(line.startswith("info") for line in lines), str(lines))
    with tap.test("-q leaves warnings, -v adds, and the last one counts"):
        counts = [len(log_of(place, *words)) for words in (["-v", "-q"], [], ["--quiet", "--verbose"])]
        check(counts[0] == 1 and counts[0] < counts[1] < counts[2], f"-q, neither, -v: {counts} lines")


def test_users(tap, place):
    """A front-end of another user."""
    name = "mode= and group= let in who is in the group, and nobody else"
    if os.getuid():
        tap.skip(name, "needs root")
        return
    with tap.test(name):
        group, other, user = NOBODY - 1, NOBODY - 2, NOBODY - 3
        binary = shutil.copy(place.binary, place.folder)
        os.chmod(place.folder, 0o777)
        run_as = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--groups", str(group)]
        ports = [f"vm{n} vhost-user listen={place.folder}/vm{n}.sock mode=0660 group={group}" for n in (1, 2)]
        switch = subprocess.Popen([*run_as, binary, "run", "-q", "--control", str(place.control), "--port", ports[0],
                                   "--port", ports[1]], env=NO_LEAK_CHECK)
        place.switches.append(switch)
        wait_for(lambda: place.call("show").returncode == 0, "an answer")
        for its_group, status in ((other, 1), (group, 0)):
            load = subprocess.run(["setpriv", "--reuid", str(user), "--regid", str(user), "--groups", str(its_group),
                                   binary, "bench", "load", "--seconds", "0.1", "--a", f"{place.folder}/vm1.sock",
                                   "--b", f"{place.folder}/vm2.sock"],
                                  env=NO_LEAK_CHECK, capture_output=True, text=True, timeout=60)
            check(load.returncode == status, f"of group {its_group}: {load}")
            check(not status or "Permission denied" in load.stderr, load.stderr)
        end(switch)
        os.unlink(binary)


def test_idle(tap, place):
    switch = place.start("--port", f"vm1 vhost-user listen={place.folder}/vm1.sock")
    with tap.test("nobody wakes the control thread of an idle switch more than once a second"):
        status = Path(f"/proc/{switch.pid}/task/{switch.pid}/status")

        def wakeups():
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.M)[1])
        time.sleep(1)  # the watchdog has seen the start
        before, seconds = wakeups(), 5
        time.sleep(seconds)
        check(wakeups() - before <= seconds + 2, f"{wakeups() - before} times in {seconds} s")
    end(switch)


def body(tap, arguments):
    # Whoever runs the tests under nohup has it ignored, which switches would inherit.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for test in (test_limits, test_descriptors, test_few_descriptors, test_signals, test_log, test_levels, test_users,
                 test_idle):
        with Place(arguments.binary) as place:
            test(tap, place)


if __name__ == "__main__":
    main(__doc__, body)
