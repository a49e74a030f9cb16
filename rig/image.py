"""Builds the guests' initramfs: a busybox, the test tools with their libraries, the virtio-net modules and an agent.

Why an initramfs: it needs no disk, so that two guests boot at once in a few seconds and a reset finds everything as at
first. Why an agent on a second serial port: the network then carries the test's traffic only, and commands arrive while
the network is down. The image is kept in the cache under a hash of its content's recipe, not compressed: to inflate it
takes an emulated guest longer than anything is saved.
"""
import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from rig import RigError, fetch

MODULES = [  # in the order in which they load; those a kernel has built in are not there as files
    "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci",
    "failover", "net_failover", "virtio_net",
    "llc", "stp", "garp", "mrp", "8021q", "udp_tunnel", "ip6_udp_tunnel", "vxlan",
]

SETUP = """\
#!/bin/sh
# Runs once at boot. $address is a word of the kernel's command line.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in {modules}; do insmod /lib/modules/$module.ko; done
ip link set lo up
ip link set eth0 up
ip addr add $address dev eth0
"""

AGENT = """\
#!/bin/sh
# A line in: "ID COMMAND"; when the command has ended, a line out: "ID STATUS OUTPUT", command and output in base64.
# Commands run side by side; "hello" tells that the guest has booted. They are no children of the shell that reads: the
# end of a child would interrupt its read, which then forgets what it has of a line.
stty raw -echo
cd /tmp
echo hello
run() {
    echo "$2" | base64 -d >/tmp/$1.sh
    sh /tmp/$1.sh </dev/null >/tmp/$1.out 2>&1
    status=$?
    (flock 9; echo "$1 $status $(base64 -w 0 /tmp/$1.out)") 9>/tmp/agent.lock
    rm /tmp/$1.sh /tmp/$1.out
}
while read -r id command; do (run "$id" "$command" &); done
"""

INITTAB = """\
::sysinit:/etc/setup
ttyS1::respawn:/etc/agent
::respawn:iperf3 -s >/dev/null 2>&1
"""


class Cpio:
    """An archive in the 'newc' form the kernel unpacks."""

    def __init__(self):
        self.data = bytearray()
        self.names = set()

    def _entry(self, name, mode, body=b"", device=(0, 0)):
        fields = [len(self.names) + 1, mode, 0, 0, 1, 0, len(body), 0, 0, *device, len(name) + 1, 0]
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        self._pad()
        self.data += body
        self._pad()
        self.names.add(name)

    def _pad(self):
        self.data += bytes(-len(self.data) % 4)

    def folder(self, name):
        if name in ("", ".") or name in self.names:
            return
        self.folder(str(Path(name).parent))
        self._entry(name, 0o40755)

    def file(self, name, body, mode=0o755):
        if name not in self.names:
            self.folder(str(Path(name).parent))
            self._entry(name, 0o100000 | mode, body)

    def link(self, name, target):
        if name not in self.names:
            self._entry(name, 0o120777, target.encode())

    def device(self, name, major, minor):
        self.folder(str(Path(name).parent))
        self._entry(name, 0o20600, device=(major, minor))

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return bytes(self.data)


def libraries(program, env):
    """The shared libraries a program loads, the loader included, as paths on this machine."""
    run = subprocess.run(["ldd", program], env=env, capture_output=True, text=True, check=True)
    return re.findall(r"(?:=> |^\s+)(/\S+)", run.stdout, re.MULTILINE)


def archive(peers):
    cpio = Cpio()
    for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        cpio.folder(folder)
    cpio.device("dev/console", 5, 1)
    busybox = peers.tool("busybox")
    cpio.file("bin/busybox", Path(busybox).read_bytes())
    for program in (tool for tool in fetch.TOOLS if tool != "busybox"):
        path = peers.tool(program)
        cpio.file(f"bin/{program}", Path(path).read_bytes())
        for library in libraries(path, peers.env):
            loader = re.match(r"/lib64/", library)
            cpio.file(library.lstrip("/") if loader else f"lib/{Path(library).name}", Path(library).read_bytes())
    modules = {path.stem: path for path in peers.modules().rglob("*.ko") if path.stem in MODULES}
    for name, path in modules.items():
        cpio.file(f"lib/modules/{name}.ko", path.read_bytes(), 0o644)
    present = " ".join(name for name in MODULES if name in modules)
    cpio.file("etc/setup", SETUP.format(modules=present).encode())
    cpio.file("etc/agent", AGENT.encode())
    cpio.file("etc/inittab", INITTAB.encode(), 0o644)
    cpio.file("etc/passwd", b"root:x:0:0::/:/bin/sh\n", 0o644)  # tcpdump wants to know whom it is to be
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        cpio.link(f"bin/{applet}", "busybox")
    cpio.link("init", "bin/busybox")
    return cpio.finish()


def recipe(peers):
    """A hash of all that the image is made from."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in [peers.kernel(), *map(peers.tool, fetch.TOOLS)]:
        stat = Path(path).stat()
        digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def image(peers):
    """The initramfs, built first if it is not in the cache yet."""
    path = fetch.cache_dir() / f"initramfs-{recipe(peers)}.cpio"
    with fetch.locked("image"):
        if not path.exists():
            for old in path.parent.glob("initramfs-*"):
                old.unlink()
            fresh = path.with_suffix(".new")
            fresh.write_bytes(archive(peers))
            fresh.rename(path)
    return path


def main():
    parser = argparse.ArgumentParser(prog="python3 -m rig.image", description="Build the guests' initramfs in the "
                                     "cache and print its path.")
    parser.parse_args()
    try:
        print(image(fetch.peers()))
    except RigError as error:
        sys.exit(f"image: {error}")


if __name__ == "__main__":
    main()
