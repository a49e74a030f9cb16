#!/usr/bin/env python3
"""The conformance kit against this switch, which passes it wholly, and against back-ends that do not."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig import check
from rig.tap import main

SECONDS = 280


def switch(binary, folder, ports, options=""):
    command = [binary, "run", "--control", f"{folder}/control", "--workers", "1", "--quiet"]
    for port in ports:
        command += ["--port", f"{port} vhost-user listen={folder}/{port} {options}"]
    return command


def conform(binary, folder, ports, command, *options, listen=False):
    """Its exit status and what it printed."""
    sockets = [word for port in ports for word in ("--listen" if listen else "--connect", f"{folder}/{port}")]
    run = subprocess.run([binary, "conform", "--json", *sockets, *options, "--", *command], text=True,
                         stdout=subprocess.PIPE, timeout=SECONDS)
    return run.returncode, json.loads(run.stdout)


def test_this_switch(tap, binary, folder):
    status, told = conform(binary, folder, "ab", switch(binary, folder, "ab"), "--log", f"{folder}/log")
    for row in told["cases"]:
        with tap.test(f"{row['case']} ({row['format']}): {row['what']}"):
            check(row["result"] == "passed", f"{row['result']}: {row['text']}")
    with tap.test("the exit status says so"):
        check(status == (0 if told["summary"]["passed"] == len(told["cases"]) else 1), f"it is {status}")


def test_what_is_missing(tap, binary, folder):
    with tap.test("a case that needs what is not offered is not run, nor is it a failure"):
        for options, case, what in (("", "frames", "second socket"), ("features=-mrg_rxbuf", "mergeable", "mrg_rxbuf"),
                                    ("features=-csum", "gso", "csum,host_tso4")):
            ports = "ab" if options else "a"
            status, told = conform(binary, folder, ports, switch(binary, folder, ports, options), "--case", case)
            check(status == 0 and all(row["result"] == "not offered" and what in row["text"] for row in told["cases"]),
                  f"{case}: {told}")


def test_crash(tap, binary, folder):
    with tap.test("a back-end that ends is told as crashed, started again, and the rest is run"):
        script = folder / "short-lived"
        # It dies when the rings of a case are up, the first time.
        command = " ".join(f"{word!r}" for word in switch(binary, folder, "a") if word != "--quiet")
        script.write_text(f"#!/bin/sh\n[ ! -e '{folder}/short.log' ] || exec {command}\n{command} 2>'{folder}/short.log' &\n"
                          f"until grep -qs ' up: ' '{folder}/short.log'; do sleep 0.01; done\n"
                          "kill -9 $!\nwait\nkill -SEGV $$\n")
        script.chmod(0o755)
        status, told = conform(binary, folder, "a", [str(script)], "--case", "kicks-as-asked", "--timeout", "20")
        check(status == 1, f"status {status}")
        first = told["cases"][0]
        check(first["result"] == "crashed" and "signal 11" in first["text"], f"{first}")
        check([row["result"] for row in told["cases"][1:]] == ["passed"], f"{told}")


def test_client(tap, binary, folder):
    with tap.test("a back-end may connect in place of listening"):
        command = [binary, "run", "--control", f"{folder}/control", "--quiet", "--port",
                   f"c vhost-user connect={folder}/c"]
        status, told = conform(binary, folder, "c", command, "--case", "acks", listen=True)
        check(status == 0 and told["summary"]["passed"] == 1, f"{status}, {told}")


def test_nobody(tap, binary, folder):
    with tap.test("without a back-end there is one line of complaint"):
        run = subprocess.run([binary, "conform", "--connect", f"{folder}/nobody", "--timeout", "0.2"], text=True,
                             capture_output=True, timeout=SECONDS)
        check(run.returncode == 1 and not run.stdout and run.stderr.count("\n") == 1, f"{run}")


def test_files(tap, binary, folder):
    def refused(*options, command="true", status=1):
        run = subprocess.run([binary, "conform", "--timeout", "0.2", *options, "--", command], text=True,
                             capture_output=True, timeout=SECONDS)
        check(run.returncode == status and not run.stdout and run.stderr.count("\n") == 1, f"{run}")
        return run.stderr

    with tap.test("a file that is no socket is not removed for one"):
        precious = folder / "precious"
        precious.write_text("x")
        said = refused("--connect", str(precious))
        check(precious.exists() and "is no socket" in said, said)
    with tap.test("a log that cannot be written is told"):
        said = refused("--connect", f"{folder}/p", "--log", f"{folder}/nowhere/log")
        check("--log" in said and "No such file" in said, said)
    with tap.test("one socket for two ports is refused"):
        refused("--connect", f"{folder}/p", "--connect", f"{folder}/p", status=2)
    with tap.test("a command that cannot be run is told, with the reason"):
        precious.chmod(0o600)
        for command, why in ((f"{folder}/nowhere", "No such file"), (str(precious), "Permission denied")):
            said = refused("--connect", f"{folder}/p", command=command)
            check(f"{command} cannot be run" in said and why in said, said)
    with tap.test("a command that runs, but does not listen at the socket, is told so"):
        said = refused("--connect", f"{folder}/p", command="cat")
        check("cat does not serve" in said and "--log" in said and "--timeout" in said, said)


def body(tap, arguments):
    binary = str(Path(arguments.binary).resolve())
    for test in (test_this_switch, test_what_is_missing, test_crash, test_client, test_nobody, test_files):
        with tempfile.TemporaryDirectory(prefix="ringway-conform-") as folder:
            test(tap, binary, Path(folder))


if __name__ == "__main__":
    main(__doc__, body)
