#!/usr/bin/env python3
"""What the running switch has given up, and that what it may do later is named at its start."""
import grp
import os
import pty
import select
import shutil
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig import check
from rig.host import enter_namespace
from rig.switch import UNPRIVILEGED
from rig.tap import main
from tests.device.test_cli import NOBODY, Place, end
from tests.device.test_process import sanitized

CAP_NET_ADMIN = 1 << 12


def rights(pid):
    """Of each thread: capabilities, no_new_privs, seccomp's mode."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        words = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found.add((int(words["CapPrm"], 16) | int(words["CapEff"], 16) | int(words["CapInh"], 16),
                   int(words["NoNewPrivs"]), int(words["Seccomp"])))
    return found


def test_rights(tap, place):
    port = f"vm1 vhost-user listen={place.folder}/vm1.sock"
    with tap.test("all of its threads are without rights"):
        switch = place.start("--port", port, "--workers", "3")
        check(len(list(Path(f"/proc/{switch.pid}/task").iterdir())) >= 5, "a thread is missing")
        check(rights(switch.pid) == {(0, 1, 2)}, f"{rights(switch.pid)}")
        check(end(switch)[0] == 0, "it did not end well")
    name = "--keep-net-admin keeps this one right"
    if os.getuid():
        tap.skip(name, "needs root")
    else:
        with tap.test(name):
            switch = place.start("--port", port, "--keep-net-admin")
            check(rights(switch.pid) == {(CAP_NET_ADMIN, 1, 2)}, f"{rights(switch.pid)}")
            check(end(switch)[0] == 0, "it did not end well")
    with tap.test("--no-sandbox says what it gives up, and keeps it"):
        switch = place.start("--port", port, "--no-sandbox")
        check(all(seccomp == 0 for _, _, seccomp in rights(switch.pid)), f"{rights(switch.pid)}")
        place.expect(0, "port", "add", "vm2", "vhost-user", "connect=/none/vm2.sock")
        check(end(switch)[0] == 0, "it did not end well")
        (line,) = [line for line in place.log.read_text().splitlines() if "--no-sandbox" in line]
        for word in ("warn", "capabilities", "files", "system calls"):
            check(word in line, line)


def directories(place, group):
    inside, given = (place.folder / name for name in ("inside", "given"))
    outside = place.folder.with_suffix(".outside")
    for folder in (place.folder, inside, inside / "deep", given, outside):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    (inside / "out").symlink_to(outside)
    switch = place.start("--port", f"vm1 vhost-user listen={given}/vm1.sock", "--allow-dir", inside)
    for folder in (place.folder, given, inside, inside / "deep"):
        path = folder / "vm2.sock"
        place.expect(0, "port", "add", "vm2", "vhost-user", f"listen={path}", "mode=0660", f"group={group}")
        check(path.is_socket(), f"{path} is not there")
        place.expect(0, "port", "del", "vm2")
        check(not path.exists(), f"{path} is still there")
        place.expect(0, "port", "add", "vm2", "vhost-user", f"connect={path}")
        place.expect(0, "port", "del", "vm2")
    for key in ("listen", "connect"):
        for path in (outside / "vm2.sock", inside / "out" / "vm2.sock", inside / ".." / ".." / "vm2.sock",
                     "/none/vm2.sock"):
            said = place.expect(1, "port", "add", "vm2", "vhost-user", f"{key}={path}")
            check("--allow-dir" in said and key in said, said)
    check(len(place.show("port")) == 1 and not list(outside.iterdir()), "something was made")
    outside.rmdir()
    check(end(switch)[0] == 0 and not list(given.iterdir()), "it did not end well")


def test_directories(tap, place):
    with tap.test("ports can be added in directories that were named, and nowhere else"):
        directories(place, os.getgid())


def test_directory_made_anew(tap, place):
    with tap.test("a directory that was made anew is not the one that was allowed, which is told with the remedy"):
        given = place.folder.with_suffix(".given")
        given.mkdir()
        switch = place.start("--allow-dir", given)
        given.rmdir()
        given.mkdir()
        said = place.call("port", "add", "vm1", "vhost-user", f"listen={given}/vm1.sock")
        check(said.returncode == 0 or "restart" in said.stderr, said.stderr)  # without Landlock it may
        check(end(switch)[0] == 0, "it did not end well")
        given.rmdir()


def test_directory_options(tap, place):
    with tap.test("--allow-dir names a directory that is there"):
        check("mkdir" in place.expect(1, "run", "--allow-dir", f"{place.folder}/none"), "no remedy")
        check("not a directory" in place.expect(1, "run", "--allow-dir", place.binary), "a file was taken")


def test_unprivileged(tap, place):
    name = "the same as a user without privileges"
    if os.getuid():
        tap.skip(name, "needs root, to become nobody")
        return
    with tap.test(name):
        binary = shutil.copy(place.binary, place.folder)
        program = place.folder / "run"
        program.write_text(f'#!/bin/sh\nexec setpriv {" ".join(UNPRIVILEGED)} {binary} "$@"\n')
        program.chmod(0o755)
        place.binary = str(program)
        place.folder.chmod(0o777)
        switch = place.start()
        check(rights(switch.pid) == {(0, 1, 2)}, f"{rights(switch.pid)}")
        check(end(switch)[0] == 0, "it did not end well")
        directories(place, NOBODY)


def test_group(tap, place):
    with tap.test("a group is found by its name or number after the start"):
        name = grp.getgrgid(os.getgid()).gr_name
        switch = place.start()
        path = place.folder / "vm1.sock"
        place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={path}", f"group={name}", "mode=0660")
        check(path.stat().st_gid == os.getgid() and path.stat().st_mode & 0o777 == 0o660, f"{path.stat()}")
        place.expect(0, "port", "add", "vm2", "vhost-user", f"listen={path}2", f"group={os.getgid()}")
        place.expect(0, "port", "del", "vm2")
        for number in ("no-such-group", "-1", "4294967295", "0x10", "1 000", ""):
            said = place.expect(1, "port", "add", "vm2", "vhost-user", f"listen={path}2", f"group={number}")
            check("no such group" in said and "number up to 4294967294" in said, said)
        check(end(switch)[0] == 0, "it did not end well")


def test_group_file(tap, place):
    name = "groups that were written anew since the start are given by number, which is told"
    if os.getuid() or sanitized(place.binary):
        tap.skip(name, "needs root, for files of its own, and no sanitizer, who may read all")
        return
    with tap.test(name):
        group = grp.getgrgid(os.getgid())
        etc, program, binary = place.folder / "etc", place.folder / "run", place.binary
        etc.mkdir()
        (etc / "group").write_text(f"{group.gr_name}:x:{group.gr_gid}:\n")
        program.write_text(f"#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {etc} /etc && exec {binary} \"$@\"' "
                           'sh "$@"\n')
        program.chmod(0o755)
        place.binary = str(program)
        switch = place.start()
        place.binary = binary

        def add(name, group):
            return place.call("port", "add", name, "vhost-user", f"listen={place.folder}/{name}.sock", f"group={group}")
        check(add("vm1", group.gr_name).returncode == 0, "the group was not found")
        (etc / "new").write_text((etc / "group").read_text())
        (etc / "new").rename(etc / "group")
        said = add("vm2", group.gr_name)
        check(said.returncode == 0 or "number" in said.stderr, said.stderr)  # without Landlock it may
        check(add("vm3", group.gr_gid).returncode == 0, "the number was not taken")
        check(end(switch)[0] == 0, "it did not end well")


def test_terminal(tap, place):
    with tap.test("the log goes on on a terminal"):
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        place.start()
        end(place.switches.pop())
        command = [place.binary, "run", "--control", str(place.control)]
        pid = os.fork()
        if not pid:
            os.dup2(theirs, 2)
            os.execv(command[0], command)
        try:
            said = ""
            while "ready" not in said or "mtu=1500" not in said:
                check(select.select([ours], [], [], 20)[0], f"nothing more was said after {said!r}")
                said += os.read(ours, 4096).decode()
                if "ready" in said and "added" not in said and not place.show("port"):
                    place.expect(0, "port", "add", "vm1", "vhost-user", f"listen={place.folder}/vm1.sock", "mtu=1500")
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            os.close(ours)
            os.close(theirs)


def test_taps(tap, place):
    name = "a tap is made at the start without an option, and later with one"
    reason = enter_namespace(("ip",))
    if reason:
        tap.skip(name, reason)
        return
    with tap.test(name):
        switch = place.start("--port", "t0 tap dev=rws0")
        said = place.expect(1, "port", "add", "t1", "tap", "dev=rws1")
        check("--keep-net-admin" in said, said)
        check([(row["name"], row["state"]) for row in place.show("port")] == [("t0", "up")], f"{place.show('port')}")
        check(end(switch)[0] == 0, "it did not end well")
        check("io_uring" not in place.log.read_text(), place.log.read_text())
        switch = place.start("--keep-net-admin")
        place.expect(0, "port", "add", "t1", "tap", "dev=rws1", "queues=3")
        check(place.show("port")[0]["state"] == "up", f"{place.show('port')}")
        check(end(switch)[0] == 0, "it did not end well")
        check("io_uring" not in place.log.read_text(), place.log.read_text())


def body(tap, arguments):
    for test in (test_rights, test_directories, test_directory_made_anew, test_directory_options, test_unprivileged,
                 test_group, test_group_file, test_terminal, test_taps):
        with Place(arguments.binary) as place:
            test(tap, place)


if __name__ == "__main__":
    main(__doc__, body)
