"""Brings real peers onto this machine without installing anything: QEMU, a guest kernel, and the guest's tools.

Why a private apt configuration: Debian 12's own QEMU 7.2 crashes when an emulated guest starts a vhost-user device with
MSI-X, and its backports hold a good one; a guest needs a kernel nobody wants to boot this machine with; and none of it
should ask for root. So packages are resolved against what the machine has, downloaded from the mirror the machine itself
uses, and unpacked (never installed) into a cache. What the machine already has in a usable version is taken from there.
"""
import argparse
import fcntl
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from rig import RigError

QEMU = "qemu-system-x86_64"
QEMU_OLDEST = (9, 2)  # the first with reconnect-ms, and past the crash named above
PACKAGES = ["qemu-system-x86", "busybox-static", "ethtool", "iperf3", "iproute2", "sockperf", "tcpdump"]
TOOLS = ["busybox", "ethtool", "iperf3", "ip", "sockperf", "tcpdump"]
FIRMWARE = ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"]
KERNEL_PACKAGE = "linux-image-cloud-amd64"
OVS_PACKAGES = ["openvswitch-switch-dpdk"]  # installed it would start a service of its own
BACKPORTS = ["bookworm"]  # releases whose own QEMU is too old
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

APT_CONFIG = """\
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "{work}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "{work}/preferences";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "{work}/lists";
Dir::State::extended_states "{work}/extended_states";
Dir::Cache "{work}";
Dir::Cache::archives "{work}/archives";
Dir::Log "{work}";
APT::Sandbox::User "";
Debug::NoLocking "1";
"""
APT_PREFERENCES = """\
Package: qemu-system-* seabios
Pin: release n={codename}-backports
Pin-Priority: 900
"""


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ringway"


@contextmanager
def locked(name):
    """One builder of a cache entry at a time, whichever process comes first."""
    try:
        cache_dir().mkdir(parents=True, exist_ok=True)
        lock = open(cache_dir() / f"{name}.lock", "w")
    except OSError as error:
        raise RigError(f"cannot write to {cache_dir()} ({error.strerror}): set XDG_CACHE_HOME to a folder of "
                       "yours") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Unpacked:
    """Programs from a folder of unpacked packages, and what environment they run in."""

    def __init__(self, root):
        self.root = Path(root)
        libs = [self.root / "usr/lib/x86_64-linux-gnu", self.root / "lib/x86_64-linux-gnu"]
        self.env = dict(os.environ, LC_ALL="C", LD_LIBRARY_PATH=":".join(map(str, libs)))

    def tool(self, name):
        """The program's path, from the cache first, then from the machine; None if neither has it."""
        own = [str(self.root / d) for d in ("usr/bin", "bin", "usr/sbin", "sbin")]
        return shutil.which(name, path=":".join(own + [os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))

    def file(self, path):
        """A file's path, from the cache first, then from the machine; None if neither has it."""
        return next((root / path for root in (self.root, Path("/")) if (root / path).exists()), None)


class OpenVswitch(Unpacked):
    """Open vSwitch with DPDK."""

    def daemon(self):
        return self.file("usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")

    def schema(self):
        return self.file("usr/share/openvswitch/vswitch.ovsschema")

    def complete(self):
        programs = [self.daemon(), *map(self.tool, ("ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-appctl"))]
        return bool(self.schema() and all(programs) and
                    subprocess.run([programs[0], "--version"], env=self.env, capture_output=True).returncode == 0)


class Peers(Unpacked):
    """What is needed to run a guest: programs, their environment, the kernel and its modules."""

    @functools.cache
    def qemu(self):
        """The QEMU to start, if there is one that runs and is new enough."""
        path = self.tool(QEMU)
        if not path:
            return None
        run = subprocess.run([path, "--version"], env=self.env, capture_output=True, text=True)
        version = re.search(r"version (\d+)\.(\d+)", run.stdout)
        return path if version and tuple(map(int, version.groups())) >= QEMU_OLDEST else None

    def qemu_command(self):
        """What a command line of it begins with: the program, and where one that was unpacked finds its firmware."""
        return [self.qemu(), *itertools.chain(*(("-L", str(self.root / folder)) for folder in FIRMWARE))]

    def network_boot(self):
        """Whether QEMU's virtio-net has iPXE in its ROM; QEMU's package brings it along."""
        return bool(self.file(f"{FIRMWARE[-1]}/efi-virtio.rom"))

    def kernel(self):
        return next(iter(sorted(self.root.glob("boot/vmlinuz-*"))), None)

    def modules(self):
        """The folder of the kernel's modules."""
        return next(self.root.glob("lib/modules/*"))

    def complete(self):
        return bool(self.kernel() and all(map(self.tool, TOOLS)) and self.qemu())


class Apt:
    """apt with a configuration of its own in a work folder; downloads resume where they stopped."""

    def __init__(self, work):
        self.work = Path(work)
        for folder in ("lists/partial", "archives/partial"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ, LC_ALL="C")
        settings = [line for line in self._output("apt-config", "dump").splitlines()
                    if line.startswith("Acquire::") and not line.startswith("Acquire::IndexTargets")]
        codename, mirror = self._origin()
        suites = [codename] + [f"{codename}-backports"] * (codename in BACKPORTS)
        lines = [f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in suites]
        (self.work / "sources.list").write_text("".join(lines))
        (self.work / "preferences").write_text(APT_PREFERENCES.format(codename=codename))
        config = self.work / "apt.conf"
        config.write_text(APT_CONFIG.format(work=self.work) + "\n".join(settings) + "\n")
        self.env["APT_CONFIG"] = str(config)

    def _output(self, *command, cwd=None):
        try:
            return subprocess.run(command, cwd=cwd, env=self.env, capture_output=True, text=True, check=True).stdout
        except FileNotFoundError:
            raise RigError(f"{command[0]} not found: guests need Debian 12 or later on x86-64") from None
        except subprocess.CalledProcessError as error:
            cause = (error.stderr.strip() or error.stdout.strip()).splitlines()[-1:]
            raise RigError(f"{' '.join(command[:2])} failed ({' '.join(cause)}): check the machine's apt sources "
                             "and network, then try again") from None

    def _origin(self):
        """The release this machine runs and the mirror its own sources name for it."""
        release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
        codename = release.get("VERSION_CODENAME", "").strip('"')
        targets = self._output("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                               "Created-By: Packages")
        for line in targets.splitlines():
            mirror, *rest = line.split()
            if rest == [codename, "main"]:
                return codename, mirror
        raise RigError(f"the apt sources have no main component of '{codename}': add Debian's to them")

    def update(self):
        self._output("apt-get", "update", "--error-on=any")
        self._output("apt-get", "autoclean")  # what an earlier, unfinished run has of older versions

    def download(self, packages):
        """These packages and those that they need and the machine has not."""
        self._output("apt-get", "install", "--yes", "--download-only", "--no-install-recommends", *packages)

    def download_kernel(self):
        depends = self._output("apt-cache", "depends", KERNEL_PACKAGE)
        kernel = re.search(r"Depends: (linux-image-\S+)", depends).group(1)
        if not list((self.work / "archives").glob(f"{kernel}_*.deb")):
            self._output("apt-get", "download", kernel, cwd=self.work / "archives")

    def packages(self):
        """All that were downloaded, as paths."""
        return sorted((self.work / "archives").glob("*.deb"))


def unpack(packages, root):
    """All or nothing: the folder appears under its name only when everything is in it."""
    fresh = root.with_suffix(".new")
    for stale in (fresh, root):
        shutil.rmtree(stale, ignore_errors=True)
    for package in packages:
        subprocess.run(["dpkg", "-x", package, fresh], check=True)
    fresh.rename(root)


def say(started, text):
    print(f"fetch: {time.monotonic() - started:5.1f} s  {text}", file=sys.stderr, flush=True)


def bring(name, kind, what, download):
    """The cache entry of that name, as `kind` has it; fetched first if it is not complete."""
    with locked(name):
        found = kind(cache_dir() / name)
        if found.complete():
            return found
        started = time.monotonic()
        work = cache_dir() / f"{name}.apt"
        say(started, "reading the package lists")
        apt = Apt(work)
        apt.update()
        say(started, f"downloading {what}")
        download(apt)
        packages = apt.packages()
        say(started, f"unpacking {len(packages)} packages into {found.root}")
        unpack(packages, found.root)
        if not found.complete():
            raise RigError(f"something is missing after the download: delete {cache_dir()} and try again")
        shutil.rmtree(work)
        say(started, "done")
        return found


@functools.cache
def peers():
    """What the guests need, fetched first if it is not in the cache yet."""
    def download(apt):
        apt.download(PACKAGES)
        apt.download_kernel()
    return bring("peers", Peers, "QEMU, a kernel and tools (30 to 100 MB)", download)


@functools.cache
def open_vswitch():
    return bring("openvswitch", OpenVswitch, "Open vSwitch (10 MB)", lambda apt: apt.download(OVS_PACKAGES))


def main():
    parser = argparse.ArgumentParser(prog="python3 -m rig.fetch", description="Fetch QEMU, a guest kernel and the "
                                     "guest's tools into the cache, from the mirror this machine's apt uses.")
    parser.parse_args()
    try:
        print(peers().root)
    except RigError as error:
        sys.exit(f"fetch: {error}")


if __name__ == "__main__":
    main()
