"""A Linux guest in QEMU with one virtio-net device on a vhost-user socket, and a way to run commands in it."""
import base64
import itertools
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

from rig import RigError, fetch, image
from rig.process import Process

BOOT_SECONDS = 120  # boots in 4 to 5 s when the machine is quiet
KVM_PROBE_SECONDS = 5
QMP_SECONDS = 60
MEMORY = "384M"


def kvm_boots(peers):
    """Whether KVM boots a kernel: there are hosts where it opens, creates a machine, and never gets anywhere."""
    command = [*peers.qemu_command(), "-accel", "kvm", "-cpu", "host", "-m", "256M", "-nodefaults", "-display", "none",
               "-serial", "stdio", "-no-reboot", "-kernel", peers.kernel(),
               "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    run = subprocess.Popen(command, env=peers.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    alarm = threading.Timer(KVM_PROBE_SECONDS, run.kill)
    alarm.start()
    try:
        return any(b"Linux version" in line for line in run.stdout)
    finally:
        alarm.cancel()
        run.kill()
        run.wait()
        run.stdout.close()


def why_no_kvm(peers):
    """Why guests are emulated here, or None; tried once per boot of the machine, for that takes seconds without KVM."""
    if not os.path.exists("/dev/kvm"):
        return "there is no /dev/kvm"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm is not this user's to open: join its group, kvm on Debian"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    answer = fetch.cache_dir() / "kvm"
    with fetch.locked("kvm"):
        known = answer.read_text().split() if answer.exists() else []
        if known[:1] != [boot]:
            known = [boot, "boots" if kvm_boots(peers) else "does-not"]
            answer.write_text(" ".join(known) + "\n")
    return None if known[1] == "boots" else f"/dev/kvm opens, but a kernel did not boot with it in {KVM_PROBE_SECONDS} s"


def accelerator(peers):
    return "tcg" if why_no_kvm(peers) else "kvm"


class Channel:
    """QEMU's end of a character device: a socket pair, so that there is no path to connect to and nothing to race."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.lines = self.ours.makefile("r", encoding="ascii", errors="replace")

    def chardev(self, name):
        return ["-chardev", f"socket,id={name},fd={self.theirs.fileno()}"]

    def send(self, text):
        self.ours.sendall(text.encode() + b"\n")

    def close(self):
        self.ours.shutdown(socket.SHUT_RDWR)


class Qmp:
    """QEMU's machine protocol, one command at a time."""

    def __init__(self, channel):
        self.channel = channel
        self.channel.ours.settimeout(QMP_SECONDS)
        self.ready = False

    def execute(self, command, **arguments):
        if not self.ready:
            self.ready = True
            self.execute("qmp_capabilities")
        self.channel.send(json.dumps({"execute": command, "arguments": arguments}))
        try:
            for line in self.channel.lines:
                answer = json.loads(line)
                if "error" in answer:
                    raise RigError(f"QEMU refused {command}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except TimeoutError:
            raise RigError(f"QEMU did not answer {command} within {QMP_SECONDS} s") from None
        raise RigError(f"QEMU ended during {command}")


class Job:
    """A command that runs in a guest."""

    def __init__(self, guest, command):
        self.guest = guest
        self.command = command
        self.result = None
        self.error = None
        self.done = threading.Event()

    def finish(self, result=None, error=None):
        self.result, self.error = result, error
        self.done.set()

    def wait(self, timeout=60):
        """(status, output) once it has ended."""
        if not self.done.wait(timeout):
            raise RigError(f"{self.guest.name}: no end of '{self.command}' within {timeout} s")
        if self.error:
            raise RigError(f"{self.guest.name}: '{self.command}' was lost: {self.error}")
        return self.result

    def output(self, timeout=60):
        """The output, once it has ended well."""
        status, output = self.wait(timeout)
        if status:
            raise RigError(f"{self.guest.name}: '{self.command}' failed with {status}: {output.strip()[-300:]}")
        return output


class Guest:
    """`path` is the vhost-user socket; QEMU connects to it and reconnects, or listens on it if `server`. With
    `netdev`, QEMU's words for another back end, the guest is on that instead, for comparison.

    `device` holds properties of virtio-net-pci, such as {"mrg_rxbuf": "off"}. With `netboot` the guest is given no
    kernel, and boots by the device's ROM."""

    def __init__(self, number, path, folder, server=False, queues=1, device=None, netdev=None, netboot=False):
        self.name = f"vm{number}"
        self.address = f"192.0.2.{number}"
        self.console = Path(folder) / f"{self.name}.console"
        self.jobs = {}
        self.numbers = itertools.count(1)
        self.booted = threading.Event()
        self.commands, qmp = Channel(), Channel()
        self.qmp = Qmp(qmp)
        peers = fetch.peers()
        accel = accelerator(peers)
        role = "server=on" if server else "reconnect-ms=1000"
        properties = {"mac": f"52:54:00:00:02:{number:02x}", "mq": "on" if queues > 1 else "off",
                      "vectors": 2 * queues + 2, **({"bootindex": 1} if netboot else {"romfile": ""}), **(device or {})}
        command = [
            *peers.qemu_command(),
            "-machine", "q35,memory-backend=ram", "-accel", accel, "-smp", min(queues, 2), "-m", MEMORY,
            # Emulation is slowest at what they do all the time: 'rep movsb', by which a guest with -cpu max copies, and
            # the switches of address space that isolate a kernel against attacks an emulated CPU does not know.
            "-cpu", "host" if accel == "kvm" else "qemu64",
            "-object", f"memory-backend-memfd,id=ram,size={MEMORY},share=on",
            "-nodefaults", "-display", "none", "-name", f"{self.name},debug-threads=on",
            *([] if netboot else
              ["-kernel", peers.kernel(), "-initrd", image.image(peers), "-append", self.kernel_arguments(number)]),
            "-serial", f"file:{self.console}",
            *self.commands.chardev("commands"), "-serial", "chardev:commands",
            *qmp.chardev("qmp"), "-mon", "chardev=qmp,mode=control",
            *(["-netdev", f"{netdev},id=net"] if netdev else
              ["-chardev", f"socket,id=vhost,path={path},{role}",
               "-netdev", f"vhost-user,id=net,chardev=vhost,queues={queues}"]),
            "-device", ",".join(["virtio-net-pci,netdev=net"] + [f"{k}={v}" for k, v in properties.items()]),
        ]
        ends = [channel.theirs for channel in (self.commands, qmp)]
        self.process = Process(command, Path(folder) / f"{self.name}.log", env=peers.env,
                               pass_fds=[end.fileno() for end in ends])
        for end in ends:
            end.close()
        threading.Thread(target=self._listen, daemon=True).start()

    @staticmethod
    def kernel_arguments(number):
        return f"console=ttyS0 quiet mitigations=off address=192.0.2.{number}/24"

    def _listen(self):
        """Takes the agent's answers until QEMU ends."""
        for line in self.commands.lines:
            words = line.split()
            if words == ["hello"]:
                self._lose_jobs("the guest has booted anew")
                self.booted.set()
            elif len(words) >= 2 and words[0].isdigit() and int(words[0]) in self.jobs:
                output = base64.b64decode(words[2] if len(words) > 2 else "").decode(errors="replace")
                self.jobs.pop(int(words[0])).finish((int(words[1]), output))
        self._lose_jobs("QEMU has ended")

    def _lose_jobs(self, why):
        for number in list(self.jobs):
            self.jobs.pop(number).finish(error=why)

    def wait_boot(self, timeout=BOOT_SECONDS):
        """Returns when the guest takes commands."""
        end = time.monotonic() + timeout
        while not self.booted.wait(0.2):
            if self.process.ended():
                raise RigError(f"{self.name}: {self.process.ended()}")
            if time.monotonic() > end:
                raise RigError(f"{self.name}: not booted within {timeout} s; the end of its console: "
                                 f"{self.console_tail(1) or 'empty (is the socket connected?)'}")
        return self

    def console_tail(self, lines):
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def start(self, command):
        """Starts a command and returns at once."""
        if self.process.ended():
            raise RigError(f"{self.name}: {self.process.ended()}")
        job = Job(self, command)
        number = next(self.numbers)
        self.jobs[number] = job
        self.commands.send(f"{number} {base64.b64encode(command.encode()).decode()}")
        return job

    def run(self, command, timeout=60):
        """(status, output) of a command."""
        return self.start(command).wait(timeout)

    def output(self, command, timeout=60):
        """The output of a command that must succeed."""
        return self.start(command).output(timeout)

    def reset(self):
        """Presses the reset button; wait_boot tells when the guest is back."""
        self.booted.clear()
        self.qmp.execute("system_reset")

    def cpu_seconds_outside(self):
        """QEMU's time outside the threads in which the guest runs."""
        return self.process.cpu_seconds() - self.process.cpu_seconds(threads="CPU ")

    def pause(self):
        self.qmp.execute("stop")

    def resume(self):
        self.qmp.execute("cont")

    def close(self):
        self.process.kill()
        for channel in (self.commands, self.qmp.channel):
            channel.close()
