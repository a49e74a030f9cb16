#!/usr/bin/env python3
"""The command line, the control socket and the life of the switch's process, from outside."""
import contextlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig import check, scratch
from rig.tap import main

READY_SECONDS = 20
END_SECONDS = 1  # what is promised
COMMANDS = [["run"], ["port"], ["port", "add"], ["port", "del"], ["port", "set"], ["show"], ["save"], ["version"],
            ["bench"], ["bench", "load"], ["bench", "latency"], ["conform"]]
NOBODY = 65534
MANUAL = (ROOT / "man" / "ringway.8").read_text().replace("\\-", "-")  # as hyphens that are to be typed are written
ARRAYS = {"port": "ports", "queue": "queues", "fdb": "fdb", "worker": "workers", "feature": "features"}


def words_of(text):
    """The words of an enumeration, without what is said of them in brackets, and without macros."""
    plain = re.sub(r"\([^)]*\)", "", re.sub(r"^\.[A-Z]+ ", "", text, flags=re.M))
    return set(re.findall(r"\w+", plain)) - {"and"}


def documented():
    """The keys that the manual page promises programs: beside the ports, of each kind of row, of a port's traffic."""
    text = MANUAL[MANUAL.index("the answer is one JSON object"):MANUAL.index(".SS ringway save")]
    top, *parts = text.split(".TP\n.B ")
    rows = dict(part.split("\n", 1) for part in parts)
    beside = top.split("\nalso ")[1]
    traffic = re.search(r"ingress and egress \(each with ([^:]+):", rows["ports"])[1]
    return words_of(beside), {what: words_of(rows[array]) for what, array in ARRAYS.items()}, words_of(traffic)


BESIDE, KEYS, TRAFFIC = documented()


def wait_for(condition, what, seconds=READY_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{what} did not happen within {seconds} s")
        time.sleep(0.01)


class Place:
    """A folder with a control socket, and the switches that were started in it."""

    def __init__(self, binary):
        self.binary = str(Path(binary).resolve())
        self.folder = scratch.folder("cli")
        self.control = self.folder / "control.sock"
        self.switches = []
        self.log = self.folder.with_suffix(".log")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for switch in self.switches:
            if switch.poll() is None:
                switch.kill()
            switch.wait()
        self.log.unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    def call(self, *words, control=True, **options):
        command = [self.binary, *map(str, words)]
        if control:
            command += ["--control", str(self.control)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=30, **options)

    def expect(self, status, *words, **options):
        """What the command printed; on failure it must have been one line on stderr."""
        run = self.call(*words, **options)
        check(run.returncode == status, f"{words}: status {run.returncode}, not {status}: {run.stderr}")
        if status:
            check(not run.stdout, f"{words}: printed {run.stdout!r} though it failed")
            check(run.stderr.count("\n") == 1, f"{words}: not one line: {run.stderr!r}")
            return run.stderr
        check(not run.stderr or words[0] == "run", f"{words}: said {run.stderr!r}")
        return run.stdout

    def show(self, what, *name):
        return next(iter(json.loads(self.expect(0, "show", what, *name, "--json")).values()))

    def start(self, *words, control=True, **options):
        """A switch that answers."""
        command = [self.binary, "run", *map(str, words)]
        if control:
            command += ["--control", str(self.control)]
        with open(self.log, "a") as log:
            switch = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        self.switches.append(switch)

        def answers():
            check(switch.poll() is None, f"the switch has ended: {self.log.read_text()}")
            return self.call("show", control=control, env=options.get("env")).returncode == 0
        wait_for(answers, "an answer")
        return switch

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


def end(switch, number=signal.SIGTERM):
    """Ends it; returns the status and the seconds that took."""
    start = time.monotonic()
    switch.send_signal(number)
    return switch.wait(timeout=20), time.monotonic() - start


def test_help(tap, place):
    with tap.test("each command explains itself, with an example"):
        for command in COMMANDS:
            text = place.expect(0, *command, "--help", control=False)
            check(text.startswith("usage: ringway " + command[0]), f"{command}: {text[:40]!r}")
            check("example" in text, f"{command}: no example")
        for words in (["--help"], ["-h"]):
            text = place.expect(0, *words, control=False)
            for command in COMMANDS:
                check(command[0] in text, f"{command[0]} is not in the list")
    with tap.test("the manual page has each option and command"):
        for command in COMMANDS:
            check(" ".join(["ringway", *command]) in MANUAL, f"{command} is not in the manual")
            text = place.expect(0, *command, "--help", control=False)
            for option in sorted(set(re.findall(r"--[a-z-]+", text))):
                check(option in MANUAL, f"{option} of {command} is not in the manual")
        for command in COMMANDS:
            check(place.expect(0, "help", *command, control=False) == place.expect(0, *command, "--help", control=False),
                  f"help {command} differs from --help")
    with tap.test("the version is told by option and command"):
        check(place.expect(0, "--version", control=False) == place.expect(0, "version", control=False), "they differ")
        check(re.fullmatch(r"ringway \d+\.\d+\.\d+\n", place.expect(0, "version", control=False)), "no version")


@contextlib.contextmanager
def answering(path, answer):
    """Somebody who sends these pieces to who connects to the path, as long as they are taken."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            client = listener.accept()[0]
            with client, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.recv(4096)
                for piece in answer:
                    client.sendall(piece)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(READY_SECONDS)
    path.unlink()


def test_usage(tap, place):
    with tap.test("wrong usage ends with status 2 and points to the help"):
        for words in (["frob"], ["run", "--frob"], ["run", "-x"], ["run", "extra"], ["run", "--workers", "0"],
                      ["run", "--workers", "many"], ["run", "--workers", "2", "--cpus", "0"], ["run", "--cpus", "1-0"],
                      ["run", "--workers"], ["run", "--poll", "often"], ["run", "--port", "a"], ["run", "--port", "a 'b"],
                      ["port"], ["port", "frob"], ["port", "add", "a"], ["port", "add", "a/b", "vhost-user"], ["port", "set", "a"], ["port", "del"],
                      ["show", "frob", "a"], ["show", "port", "a", "b"], ["save", "extra"], ["version", "extra"]):
            said = place.expect(2, *words, control=False)
            check("--help'" in said, f"{words}: no word of the help: {said!r}")
        check(place.call(control=False).returncode == 2, "no command at all")
    with tap.test("what is wrong with a port points to the help that lists kinds and keys, wherever it is said"):
        for words in (["run", "--port", "a"], ["run", "--port", "a vhost-user frob"], ["run", "--port", "a 'b"],
                      ["port", "add", "a"], ["port", "add", "a", "vhost-user", "frob"]):
            said = place.expect(2, *words, control=False)
            check("; see 'ringway port add --help'\n" in said, f"{words}: {said}")
        check("'ringway port set --help'" in place.expect(2, "port", "set", "a", control=False), "port set")
        check("load nor latency" in place.expect(2, "bench", "frob", control=False), "bench")
        check("--list" in place.expect(2, "conform", "--case", "frob", control=False), "conform")
    with tap.test("a mistyped word is told what it may have meant"):
        for words, meant in ((["prot"], "port"), (["shwo"], "show"), (["port", "ad"], "add"),
                             (["show", "worke", "0"], "worker"), (["show", "ports", "vm1"], "port")):
            said = place.expect(2, *words, control=False)
            check(f"did you mean '{meant}'?" in said, said)
        check("mean" not in place.expect(2, "xyzzy", control=False), "there is nothing like it")
    with tap.test("an option says whether it lacks a value or has one too many"):
        check("'--port' needs a value" in place.expect(2, "run", "--port", control=False), "--port")
        check("'--json=x' takes no value" in place.expect(2, "show", "--json=x", control=False), "--json=x")
        check("'-f' needs a value" in place.expect(2, "run", "-f", control=False), "-f")
        check("unknown option '-x'" in place.expect(2, "run", "-xv", control=False), "-x")
        check("unknown option '-x';" in place.expect(2, "show", "-x", control=False), "-x")
        for command in (["port"], ["port", "add"], ["port", "set"], ["bench"], ["bench", "load"], ["bench", "latency"]):
            said = place.expect(2, *command, "--frob", control=False)
            check(f"see 'ringway {' '.join(command)} --help'" in said, said)
    with tap.test("words in another order than ours, or quoted where ours are not, are told how to be written"):
        for words, said in ((["run", "--port", "vm1", "vhost-user", "listen=/x"], "--port 'vm1 vhost-user ...'"),
                            (["port", "add", "vm1 vhost-user listen=/x"], "no quotes around"),
                            (["port", "add", "vhost-user"], "say one of vhost-user, tap"),
                            (["show", "vm1", "queue"], "'ringway show queue vm1'"),
                            (["--control", "/x", "show"], "options go after it"),
                            (["conform", "/x"], "given with --connect")):
            check(said in place.expect(2, *words, control=False), f"{words}: {said}")
    with tap.test("a comma between keys is refused with what to write"):
        said = place.expect(2, "port", "add", "vm1", "vhost-user", "listen=/x.sock,mtu=1500", control=False)
        check("listen=/x.sock mtu=1500" in said, said)
    with tap.test("status 1 when what was understood is refused"):
        for port in ("vm1 frob", "vm1 vhost-user", "vm1 vhost-user frob=1", "vm1 vhost-user listen=/none/vm1.sock",
                     "vm1 vhost-user fd=2", "vm1 vhost-user connect=/x mode=0600", "vm1 vhost-user connect=/x group=0"):
            check("vm1" in place.expect(1, "run", "--port", port), f"{port}: it is not named")
        check("mkdir" in place.expect(1, "run", "--port", "vm1 vhost-user listen=/none/vm1.sock"), "no remedy")
        check("whole path" in place.expect(1, "run", "--port", "vm1 vhost-user listen=~/none/vm1.sock"), "no remedy")
        check("mkdir" in place.expect(1, "run", "--control", "/none/control.sock", control=False), "no remedy")
        check("give a file" in place.expect(1, "run", "-f", place.folder), "no remedy")
        check("'': " in place.expect(1, "run", "--allow-dir", ""), "the empty directory is not to be seen")
        check("directory that is there" in place.expect(1, "conform", "--listen", "/none/a.sock", control=False), "no remedy")
    with tap.test("status 3 when no switch answers, with the remedy"):
        for words in (["show"], ["save"], ["port", "add", "a", "vhost-user", "listen=/x"], ["port", "del", "a"]):
            check("ringway run" in place.expect(3, *words), f"{words}: no remedy")
        place.control.write_text("")
        place.expect(3, "show")
        place.control.unlink()
    with tap.test("status 3 when what answers is no switch, even if its answer does not end"):
        def endless():
            while True:
                yield b"x" * (1 << 20)
        for answer, said in (((), "Connection reset"), ((b"{}",), "Connection reset"), ((b"{}\n",), "is no switch"),
                             ((b"x\n",), "is no switch"), (endless(), "it does not end")):
            with answering(place.control, answer):
                check(said in place.expect(3, "show"), f"not {said}")


def test_bad_file(tap, place):
    config = place.folder / "bad.conf"
    good = f"port add vm1 vhost-user listen={place.folder}/vm1.sock\n"
    with tap.test("an error in a file is told as FILE:LINE and nothing is started"):
        for text, line in (("port add\n", 2), ("frob\n", 2), ("port add vm1 vhost-user\n", 2),
                           ("port add vm2 frob\n", 2), ("\n# x\nport add vm2 vhost-user listen=/x frob=1\n", 4),
                           ("port add vm2 vhost-user\n", 2), ("port set vm1 frob=1\n", 2),
                           ("run --workers x\n", 2), ("port add vm2 'vhost-user\n", 2)):
            config.write_text(good + text)
            said = place.expect(1, "run", "-f", config)
            check(said.startswith(f"{config}:{line}: "), f"{text!r}: {said!r}")
            check(place.names() == ["bad.conf"], f"{text!r} left {place.names()}")
        check(str(config) in place.expect(1, "run", "-f", f"{config}.none"), "a missing file is not named")
    with tap.test("a port that cannot start leaves nothing behind"):
        taken = place.folder / "taken"
        taken.write_text("precious")
        config.write_text(good + f"port add vm2 vhost-user listen={taken}\n")
        said = place.expect(1, "run", "-f", config)
        check(said.startswith(f"{config}:2: ") and "vm2" in said, f"line and port are not named: {said!r}")
        check(place.names() == ["bad.conf", "taken"], f"it left {place.names()}")
        check(taken.read_text() == "precious", "a file that is no socket was touched")
        taken.unlink()
    config.unlink()


def test_life(tap, place):
    port = f"vm1 vhost-user listen={place.folder}/vm1.sock"
    for number in (signal.SIGTERM, signal.SIGINT):
        with tap.test(f"{number.name} ends it within {END_SECONDS} s and removes its sockets"):
            switch = place.start("--port", port, "--port", f"vm2 vhost-user connect={place.folder}/none.sock")
            check(place.names() == ["control.sock", "vm1.sock"], f"there are {place.names()}")
            status, seconds = end(switch, number)
            check(status == 0, f"status {status}: {place.log.read_text()}")
            check(seconds < END_SECONDS, f"it took {seconds:.2f} s")
            check(not place.names(), f"it left {place.names()}")
    with tap.test("a client that is connected does not delay the end"):
        switch = place.start("--port", port)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place.control))
            status, seconds = end(switch)
        check(status == 0 and seconds < END_SECONDS, f"status {status} after {seconds:.2f} s")
    with tap.test(f"frames that pass do not delay the end: it comes within {END_SECONDS} s"):
        switch = place.start("--port", port, "--port", f"vm2 vhost-user listen={place.folder}/vm2.sock")
        load = subprocess.Popen([place.binary, "bench", "load", "--a", f"{place.folder}/vm1.sock", "--b",
                                 f"{place.folder}/vm2.sock", "--seconds", "600"], stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: all(row["egress"]["frames"] > 1000 for row in place.show("port")), "traffic")
            status, seconds = end(switch)
        finally:
            load.kill()
            load.wait()
        check(status == 0 and seconds < END_SECONDS, f"status {status} after {seconds:.2f} s")
        check(not place.names(), f"it left {place.names()}")
    with tap.test("a second switch at the same control socket is refused"):
        switch = place.start("--port", port)
        said = place.expect(1, "run")
        check("answers" in said and str(place.control) in said, said)
        check(len(place.show("port")) == 1, "the first has suffered")
    with tap.test("what a killed switch left is replaced"):
        switch.kill()
        switch.wait()
        check(place.names() == ["control.sock", "vm1.sock"], "nothing was left to replace")
        place.expect(3, "show")
        end(place.start("--port", port))
        check(not place.names(), f"it left {place.names()}")
    with tap.test("a control path that is no socket is left alone"):
        place.control.write_text("precious")
        place.expect(1, "run")
        check(place.control.read_text() == "precious", "it was touched")
        place.control.unlink()
    with tap.test("the control socket is its owner's, and the descriptor limit the hard one"):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

        def prepare():
            os.umask(0)
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        switch = place.start(preexec_fn=prepare)
        check(stat.S_IMODE(place.control.stat().st_mode) == 0o600, oct(place.control.stat().st_mode))
        limits = re.search(r"Max open files +(\d+) +(\d+)", Path(f"/proc/{switch.pid}/limits").read_text())
        check(limits[1] == limits[2], limits[0])
        end(switch)


def test_ports(tap, place):
    switch = place.start("--workers", "1")
    listen = place.folder / "vm1.sock"
    with tap.test("a port is added, changed and deleted while the switch runs"):
        place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={listen}", "mode=0660")
        check(stat.S_IMODE(listen.stat().st_mode) == 0o660, oct(listen.stat().st_mode))
        (row,) = place.show("port", "vm1")
        check(row["state"] == "waiting" and str(listen) in row["reason"], str(row))
        place.expect(0, "port", "set", "vm1", "mtu=1400")
        check(place.show("port")[0]["mtu"] == 1400, "the MTU is not what was set")
        place.expect(0, "port", "del", "vm1")
        check(place.show("port") == [] and not listen.exists(), "it is still there")
    with tap.test("a port whose socket somebody has removed, or exchanged for another, says so"):
        place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={listen}")
        for exchange in (False, True):
            listen.unlink()
            if exchange:
                with socket.socket(socket.AF_UNIX) as other:
                    other.bind(str(listen))
            (row,) = place.show("port", "vm1")
            check(row["state"] == "waiting" and f"{listen} was removed" in row["reason"], str(row))
            place.expect(0, "port", "del", "vm1")
            check(listen.exists() == exchange, "it removed what is not its own")
            place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={listen}")
            check("removed" not in place.show("port", "vm1")[0]["reason"], "it is there again")
        place.expect(0, "port", "del", "vm1")
    with tap.test("a socket that is another port's is refused, by that port's name, to listen at and to connect to"):
        far = place.folder / "far.sock"
        place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={listen}")
        place.expect(0, "port", "add", "vm2", "vhost-user", f"connect={far}")
        for key, (path, owner) in itertools.product(("listen", "connect"), ((listen, "vm1"), (far, "vm2"))):
            said = place.expect(1, "port", "add", "vm3", "vhost-user", f"{key}={path}")
            check(f"{path} is port '{owner}' already" in said, said)
        check([row["state"] for row in place.show("port")] == ["waiting"] * 2, str(place.show("port")))
        for name in ("vm1", "vm2"):
            place.expect(0, "port", "del", name)
    with tap.test("MTUs that differ are told, those that are alike or not known are not"):
        for number, mtu in enumerate((0, 1500, 9000)):
            place.expect(0, "port", "add", f"p{number}", "vhost-user", f"listen={place.folder}/p{number}", f"mtu={mtu}")
        check("MTUs differ: p1 has 1500, p2 has 9000" in place.expect(0, "show"), "they are not told")
        place.expect(0, "port", "set", "p2", "mtu=1500")
        check("differ" not in place.expect(0, "show"), "they do not differ")
        for number in range(3):
            place.expect(0, "port", "del", f"p{number}")
    with tap.test("what cannot be is refused with status 1, and changes nothing"):
        place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={listen}")
        for words in (["add", "vm1", "vhost-user", f"listen={listen}2"], ["add", "vm2", "frob"],
                      ["add", "vm2", "vhost-user"], ["add", "vm2", "vhost-user", f"listen={listen}"],
                      ["add", "vm2", "vhost-user", f"listen={place.folder}"],
                      ["add", "vm2", "vhost-user", "listen=/" + "x" * 200],
                      ["add", "vm2", "vhost-user", f"listen={listen}2", "frob=1"],
                      ["add", "vm2", "vhost-user", f"listen={listen}2", "mtu=x"],
                      ["add", "vm2", "vhost-user", "fd=0"], ["del", "vm2"], ["set", "vm2", "mtu=1500"],
                      ["set", "vm1", "frob=1"], ["set", "vm1", "listen=/x"]):
            place.expect(1, "port", *words)
        check("run" in place.expect(1, "port", "add", "vm2", "vhost-user", "fd=0"), "no remedy for fd=")
        check("dev=" in place.expect(1, "port", "add", "vm2", "tap", "fd=0"), "no remedy for fd= of a tap")
        for value in ("99", "-1", "1000001"):
            said = place.expect(1, "port", "add", "vm2", "vhost-user", f"listen={listen}2", f"messages-max={value}")
            check(f"messages-max={value}: give 100 to 1000000, or 0" in said, said)
        check("no option 'frob'" in place.expect(1, "port", "set", "vm1", "frob=1"), "an unknown key")
        check("cannot change" in place.expect(1, "port", "set", "vm1", "mode=0600"), "a key that cannot change")
        for words in (["port", "vm2"], ["queue", "vm2"], ["fdb", "vm2"], ["worker", "1"], ["feature", "frob"]):
            place.expect(1, "show", *words)
        check([row["name"] for row in place.show("port")] == ["vm1"], "the ports have changed")
        check(place.names() == ["control.sock", "vm1.sock"], f"there are {place.names()}")
    with tap.test("ports come and go a hundred times"):
        for number in range(100):
            place.expect(0, "port", "add", f"p{number}", "vhost-user", f"listen={place.folder}/p.sock")
            place.expect(0, "port", "del", f"p{number}")
        check([row["name"] for row in place.show("port")] == ["vm1"], "some have stayed")
    end(switch)


def test_show(tap, place):
    switch = place.start("--workers", "2", "--port", f"vm1 vhost-user listen={place.folder}/vm1.sock")
    with tap.test("show is a table for people and keeps the contract with programs, which is in the manual page"):
        check(place.expect(0, "show") == place.expect(0, "show", "port"), "show alone does not show ports")
        for what, keys in KEYS.items():
            check(place.expect(0, "show", what), "no table")
            for row in place.show(what):
                check(set(row) == keys, f"{what}: {set(row) ^ keys}")
            answer = set(json.loads(place.expect(0, "show", what, "--json")))
            check(answer == {ARRAYS[what]} | (BESIDE if what == "port" else set()), f"{what}: {answer}")
        check(set(place.show("port")[0]["ingress"]) == TRAFFIC, "ingress differs")
        check([row["worker"] for row in place.show("worker")] == [0, 1], "there should be two workers")
        check("waiting" in place.expect(0, "show", "port", "vm1"), "it does not say what the port waits for")
        check("mode=0600" in place.expect(0, "show", "port", "vm1"), "it does not say who may connect")
    command = [place.binary, "bench", "load", "--a", f"{place.folder}/vm1.sock", "--b", f"{place.folder}/vm2.sock",
               "--seconds", "600"]

    def formats():
        return {row["format"] for row in place.show("queue")}
    with tap.test("rings and learned addresses are shown while frames pass, and in JSON with what was promised"):
        place.expect(0, "port", "add", "vm2", "vhost-user", f"listen={place.folder}/vm2.sock")
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: len(place.show("fdb")) == 2, "two learned addresses")
            for what, rows in (("queue", 4), ("fdb", 2)):
                check(len(place.show(what)) == rows, f"{what}: {place.show(what)}")
                check(all(set(row) == KEYS[what] for row in place.show(what)), str(place.show(what)))
                check(place.expect(0, "show", what).count("\n") == rows + 1, f"no table of {what}")
                (row, *others) = [row for row in place.show(what, "vm2") if row.get("direction") != "rx"]
                check(row["port"] == "vm2" and not others, f"{what} vm2: {row}, {others}")
                check("vm1" not in place.expect(0, "show", what, "vm2"), f"{what} vm2: the table has more")
            check(place.show("queue", "vm2")[1]["frames"] > 0 and row["age"] < 60, "no traffic is shown")
            with_rows = {what: place.expect(0, "show", what) for what in KEYS}
            check("they are 0 to 1" in place.expect(1, "show", "worker", "2"), "a worker that is not there")
            check(place.show("worker", "0")[0]["worker"] == 0 and len(place.show("worker", "1")) == 1, "one worker")
            check(place.show("feature", "csum")[0]["offered"], "one feature")
            detail = place.expect(0, "show", "port", "vm1")
            check("version_1" in detail and "ingress" in detail, detail)
            check("\n  limits: memory-max=1024 messages-max=1000 queue-size-max=32768 log-max=1\n" in detail, detail)
        finally:
            load.kill()
            load.wait()
        for text in with_rows.values():
            check(not re.search(r" $", text, re.M), text)
        check(with_rows["queue"].count(" split ") == 4, with_rows["queue"])
        wait_for(lambda: formats() == {None}, "the end of the sessions")
        load = subprocess.Popen([*command, "--ring", "packed"], stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: formats() == {"packed"}, "packed rings")
        finally:
            load.kill()
            load.wait()
        with socket.socket(socket.AF_UNIX) as wrong:
            place.expect(0, "port", "set", "vm1", "log-max=7")
            wait_for(lambda: place.show("port", "vm1")[0]["state"] == "waiting", "the end of the session")
            wrong.connect(f"{place.folder}/vm1.sock")
            wrong.send(bytes(12))
            check(wrong.recv(1) == b"", "an answer")
        detail = place.expect(0, "show", "vm1")
        check("\n  refused: 1 malformed (message that is malformed or has wrong descriptors)\n" in detail, detail)
        check("log-max=7" in detail, detail)
        place.expect(0, "port", "del", "vm2")
    with tap.test("what was refused stands below the name of its port, also if nothing else is to be told of it"):
        place.expect(0, "port", "add", "vm3", "vhost-user", f"listen={place.folder}/vm3.sock")
        with socket.socket(socket.AF_UNIX) as front:
            front.connect(f"{place.folder}/vm3.sock")
            front.send(struct.pack("=IIIQ", 16, 1, 8, 1 << 3))  # SET_PROTOCOL_FEATURES: REPLY_ACK
            front.send(struct.pack("=III", 99, 1 | 8, 0))  # a request that there is not, with NEED_REPLY
            check(struct.unpack("=IIIQ", front.recv(20))[3], "it was not refused")
            shown = place.expect(0, "show")
            check("\n\nvm3:\n  refused: 1 not_offered" in shown, shown)
        place.expect(0, "port", "del", "vm3")
    with tap.test("show takes the name of a port for the port"):
        check(place.expect(0, "show", "vm1") == place.expect(0, "show", "port", "vm1"), "they differ")
        for words, status in ((["vm2"], 2), (["fdb", "vm2"], 1)):
            place.expect(status, "show", *words)
        check("did you mean 'queue'?" in place.expect(2, "show", "queu"), "no hint")
    with tap.test("features show the words of features="):
        options = {row["name"]: row["option"] for row in place.show("feature")}
        check(options["host_tso6"] == "tso" and options["csum"] == "csum" and options["version_1"] is None, str(options))
        check([row["name"] for row in place.show("feature", "guest_uso")] == ["guest_uso4", "guest_uso6"], "of a word")
        for word in set(filter(None, options.values())):
            place.expect(0, "port", "set", "vm1", f"features=-{word}")
        place.expect(0, "port", "set", "vm1", "features=")
    with tap.test("lines for people have no blanks at their end"):
        for what in KEYS:
            text = place.expect(0, "show", what)
            check(not re.search(r" $", text, re.M), text)
    with tap.test("output that cannot be written is a failure"):
        with open("/dev/full", "w") as full:
            run = subprocess.run([place.binary, "show", "--control", place.control], stdout=full, capture_output=False,
                                 stderr=subprocess.PIPE, text=True)
        check(run.returncode == 1 and "cannot write" in run.stderr, f"{run.returncode}: {run.stderr}")
    end(switch)
    with tap.test("workers are pinned as --cpus says"):
        cpu = max(os.sched_getaffinity(0))
        switch = place.start("--cpus", cpu)
        check([row["cpu"] for row in place.show("worker")] == [cpu], str(place.show("worker")))
        end(switch)


def test_room(tap, place):
    with tap.test("there are as many ports as --ports-max says, and what was refused is counted"):
        config = place.folder / "room.conf"
        config.write_text("run --ports-max 3\n" + "".join(
            f"port add vm{i} vhost-user listen={place.folder}/vm{i}.sock\n" for i in range(3)))
        check("room.conf:4: the switch has 2 ports; delete one first, or start it with a higher --ports-max"
              in place.expect(1, "run", "--ports-max", "2", "-f", config), "the command line has not the last word")
        said = place.expect(1, "run", "--ports-max", "1", "-f", config)
        check("the switch has 1 port; delete" in said, said)
        switch = place.start("-f", config)
        another = ("port", "add", "vm3", "vhost-user", f"listen={place.folder}/vm3.sock")
        check("the switch has 3 ports" in place.expect(1, *another), "one too many")
        check("3 of 3 ports (--ports-max); 1 more was refused" in place.expect(0, "show"), place.expect(0, "show"))
        place.expect(0, "port", "del", "vm1")
        place.expect(0, *another)
        shown = json.loads(place.expect(0, "show", "--json"))
        check((shown["ports_max"], shown["ports_refused"], len(shown["ports"])) == (3, 1, 3), str(shown))
        end(switch)


def test_save(tap, place):
    config = place.folder / "saved.conf"
    with tap.test("a switch that was saved comes back the same"):
        switch = place.start("--workers", "2", "--poll", "always", "--ports-max", "3", "--port",
                             f"vm1 vhost-user 'listen={place.folder}/a b.sock' mtu=9000")
        place.expect(0, "port", "add", "vm2", "vhost-user", f"connect={place.folder}/it's \"there\"", "mtu=1400")
        place.expect(0, "port", "add", "vm3", "vhost-user", f"listen={place.folder}/vm3.sock", "mode=0660")
        place.expect(0, "port", "set", "vm2", "mtu=1300")
        place.expect(0, "port", "set", "vm2", "log-max=5", "memory-max=2")
        saved, ports = place.expect(0, "save"), place.show("port")
        check("run --workers 2 --poll always --ports-max 3\n" in saved, saved)
        end(switch)
        config.write_text(saved)
        switch = place.start("-f", config)
        check(place.expect(0, "save") == saved, f"{saved}\n--- became ---\n{place.expect(0, 'save')}")
        check(place.show("port") == ports, f"{ports}\n--- became ---\n{place.show('port')}")
        check(len(place.show("worker")) == 2, "the number of workers is another")
        end(switch)
    with tap.test("ports are saved as they were added"):
        switch = place.start()
        for name in ("b", "a", "c"):
            place.expect(0, "port", "add", name, "vhost-user", f"connect={place.folder}/{name}")
        place.expect(0, "port", "del", "b")
        place.expect(0, "port", "add", "b", "vhost-user", f"connect={place.folder}/b")
        order = re.findall(r"^port add (\w+)", place.expect(0, "save"), re.M)
        check(order == ["a", "c", "b"], str(order))
        end(switch)
    with tap.test("a relative path is where it was said, and saved as an absolute one"):
        elsewhere = place.folder / "else where"
        elsewhere.mkdir()
        switch = place.start("--port", "vm1 vhost-user listen=vm1.sock", cwd=place.folder)
        place.expect(0, "port", "add", "vm2", "vhost-user", "listen=vm2.sock", cwd=elsewhere)
        check((place.folder / "vm1.sock").exists() and (elsewhere / "vm2.sock").exists(), "they are not there")
        for row, folder in zip(place.show("port"), (place.folder, elsewhere)):
            check(f" {folder}/{row['name']}.sock " in row["reason"], f"shown as it was said: {row['reason']}")
        saved = place.expect(0, "save")
        check(f"listen={place.folder}/vm1.sock" in saved and f"'listen={elsewhere}/vm2.sock'" in saved, saved)
        end(switch)
        said = place.expect(1, "run", "--port", "vm1 vhost-user listen=none/vm1.sock", cwd=elsewhere)
        check(f"no directory {elsewhere}/none;" in said, f"an error has it as it was said: {said}")
        elsewhere.rmdir()
    with tap.test("a value that is not UTF-8 could not be saved and is refused"):
        value = "connect=/tmp/" + os.fsdecode(b"\xff")
        check("UTF-8" in place.expect(2, "port", "add", "vm1", "vhost-user", value), "port add")
        check("UTF-8" in place.expect(2, "run", "--port", f"vm1 vhost-user {value}"), "--port")
        broken = place.folder / "broken.conf"
        broken.write_bytes(b"port add vm1 vhost-user connect=/tmp/\xff\n")
        check(f"{broken}:1: " in place.expect(1, "run", "-f", broken), "file")
        broken.unlink()
    with tap.test("the command line has the last word on workers"):
        switch = place.start("-f", config, "--workers", "1")
        check(len(place.show("worker")) == 1, "the file's number was taken")
        check("the only one is 0" in place.expect(1, "show", "worker", "7"), "a worker that is not there")
        end(switch)
    config.unlink()


def test_notify(tap, place):
    for abstract in (False, True):
        with tap.test(f"readiness is told to {'an abstract' if abstract else 'a'} NOTIFY_SOCKET when it answers"):
            name = f"{place.folder}/notify"
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
                notify.bind("\0" + name if abstract else name)
                notify.settimeout(READY_SECONDS)
                env = {**os.environ, "NOTIFY_SOCKET": "@" + name if abstract else name}
                switch = subprocess.Popen([place.binary, "run", "-q", "--control", place.control, "--port",
                                           f"vm1 vhost-user listen={place.folder}/vm1.sock"], env=env)
                place.switches.append(switch)
                check(notify.recv(100) == b"READY=1", "it said something else")
                check(len(place.show("port")) == 1, "the port is not there")
                check((place.folder / "vm1.sock").exists(), "the port's socket is not there")
                end(switch)
                check(notify.recv(100) == b"STOPPING=1", "it did not say that it ends")
            Path(name).unlink(missing_ok=True)
    with tap.test("a NOTIFY_SOCKET that cannot be reached is told of, and the switch runs"):
        end(place.start(env={**os.environ, "NOTIFY_SOCKET": f"{place.folder}/nobody"}))
        check("NOTIFY_SOCKET: No such file" in place.log.read_text(), place.log.read_text())


def test_inherited(tap, place):
    with tap.test("an inherited socket is a port"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            number = theirs.fileno()
            switch = place.start("--port", f"vm1 vhost-user fd={number}", pass_fds=[number])
            theirs.close()
            (row,) = place.show("port")
            check(row["state"] == "connected", str(row))
        with tap.test("it is saved as a comment, since no file could bring it back"):
            saved = place.folder / "saved.conf"
            saved.write_text(place.expect(0, "save"))
            end(switch)
            check("with --port: port add vm1 vhost-user fd=" in saved.read_text(), saved.read_text())
            switch = place.start("-f", saved)
            check(place.show("port") == [], "it came back")
            saved.unlink()
        end(switch)


def test_system_switch(tap, place):
    name = "who may not ask the system's switch is told that root may"
    if os.getuid() or any(map(os.path.lexists, ("/run/ringway", f"/tmp/ringway-{NOBODY}"))):
        tap.skip(name, "needs root, and neither /run/ringway nor a folder of nobody's in /tmp")
        return
    with tap.test(name):
        env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        binary = shutil.copy(place.binary, place.folder)
        place.folder.chmod(0o755)
        switch = place.start(control=False, env=env)
        try:
            run = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", binary, "show"], env=env,
                                 capture_output=True, text=True, timeout=30)
            check(run.returncode == 3 and "sudo" in run.stderr and run.stderr.count("\n") == 1, str(run))
            elsewhere = {**env, "XDG_RUNTIME_DIR": str(place.folder)}
            check(place.call("show", control=False, env=elsewhere).returncode == 0, "root was not answered")
        finally:
            end(switch)
            Path(binary).unlink()
            os.rmdir("/run/ringway")


def test_default_path(tap, place):
    with tap.test("the default control socket is in XDG_RUNTIME_DIR, in a folder of its own"):
        env = {**os.environ, "XDG_RUNTIME_DIR": str(place.folder)}
        switch = place.start(control=False, env=env)
        folder = place.folder / "ringway"
        check(stat.S_IMODE(folder.stat().st_mode) == 0o700, oct(folder.stat().st_mode))
        check((folder / "ringway.sock").exists(), "the socket is elsewhere")
        end(switch)
        folder.chmod(0o777)
        check("open to others" in place.expect(1, "run", control=False, env=env), "a folder open to all was taken")
        folder.rmdir()
    test_system_switch(tap, place)
    name = "in /tmp a folder that somebody else has prepared is not used"
    trap = Path(f"/tmp/ringway-{NOBODY}")
    if os.getuid() or os.path.lexists(trap):
        tap.skip(name, f"needs root, and no {trap}")
        return
    with tap.test(name):
        env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        binary = shutil.copy(place.binary, place.folder)
        place.folder.chmod(0o755)
        command = ["setpriv", "--reuid", str(NOBODY), "--clear-groups", binary]
        elsewhere = place.folder / "elsewhere"
        elsewhere.mkdir()
        os.chown(elsewhere, NOBODY, NOBODY)

        def link():
            trap.symlink_to(elsewhere)
            os.lchown(trap, NOBODY, NOBODY)
        for make, remove, why in ((lambda: trap.mkdir(0o700), trap.rmdir, "belongs to user 0"),
                                  (link, trap.unlink, "is not a directory")):
            make()
            try:
                for words, status in ((["run"], 1), (["show"], 3)):
                    run = subprocess.run([*command, *words], env=env, capture_output=True, text=True, timeout=30)
                    check(run.returncode == status and f"{trap} {why}" in run.stderr, f"{words}: {run}")
                check(not list(elsewhere.iterdir()), "something was made there")
            finally:
                remove()
        elsewhere.rmdir()
        Path(binary).unlink()


def test_rpc(tap, place):
    switch = place.start()

    def ask(stream, method, **params):
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        stream.write(json.dumps(request) + "\n")
        stream.flush()
        return json.loads(stream.readline())

    with tap.test("the control socket refuses what the command line would refuse"):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(place.control))
            stream = client.makefile("rw")
            for method, params, code in (
                    ("port.add", {}, -32602), ("port.add", {"name": "a"}, -32602),
                    ("port.add", {"name": "a/b", "kind": "vhost-user"}, -32602),
                    ("port.add", {"name": 1, "kind": "vhost-user"}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user", "options": ["listen=/x"]}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user", "options": {"mtu": 1}}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user", "options": {"listen": "/x\ny"}}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user", "options": {"fd": "0"}}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user", "frob": "1"}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user",
                                  "options": {f"k{n}": "v" for n in range(33)}}, -32602),
                    ("port.add", {"name": "a", "kind": "vhost-user",
                                  "options": {"listen": f"{place.folder}/a", "mtu": "0" * 5000 + "1500"}}, -32602),
                    ("port.set", {"name": "a"}, -32602), ("port.set", {"name": "a", "options": {"mtu": "1"}}, -32000),
                    ("port.del", {"name": "a"}, -32000), ("show.port", {"name": "a"}, -32000),
                    ("show.frob", {}, -32601)):
                answer = ask(stream, method, **params)
                check(answer["id"] == 7 and answer["error"]["code"] == code, f"{method} {params}: {answer}")
            check(ask(stream, "show.port")["result"]["ports"] == [], "a port has been made")
    with tap.test("what was refused at the control socket is counted and shown"):
        shown = json.loads(place.expect(0, "show", "--json"))
        check(shown["control_refused"] == {"no_method": 1, "params": 12, "impossible": 3}, str(shown))
        check("\n  refused at the control socket: 1 no_method (method that does not exist)\n" in place.expect(0, "show"),
              place.expect(0, "show"))
    with tap.test("random bytes on the control socket do no harm"):
        for number in range(20):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place.control))
                try:
                    client.sendall(os.urandom(1000 * number))
                except (BrokenPipeError, ConnectionResetError):
                    pass
        check(place.show("port") == [], "it shows nonsense")
        check(end(switch)[0] == 0, "it did not end well")


def body(tap, arguments):
    for test in (test_help, test_usage, test_bad_file, test_life, test_ports, test_show, test_room, test_save, test_notify,
                 test_inherited, test_default_path, test_rpc):
        with Place(arguments.binary) as place:
            test(tap, place)


if __name__ == "__main__":
    main(__doc__, body)
