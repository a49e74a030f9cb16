"""A machine without a disk boots from the host over ringway: iPXE in the ROM of QEMU's virtio-net gets an address and a
script (DHCP, TFTP), the kernel and its initramfs (HTTP), and then Linux is a guest as any. Run from the top of the source
tree: python3 -m tests.guests.test_netboot build/ringway

Wants root; runs in network namespaces of its own. iPXE checks every checksum, has one small ring, polls it, and hands it
over to Linux's driver in the end."""
import shutil
import struct

from rig import fetch, image, tap, traffic
from rig.guest import Guest
from rig.host import HostPair, check, enter_namespace

TOOLS = ("ip", "iperf3", "unshare", "nsenter", "dnsmasq")
PORT = 8080
VIRTIO_1_NET, TRANSITIONAL_NET = 0x1041, 0x1000
CHECKSUM = 6  # where iPXE has the byte that is there for the sum
KINDS = {
    "virtio 1": {"disable-legacy": "on"},
    "virtio 0.9.5": {"disable-modern": "on", "disable-legacy": "off"},
}
SCRIPT = """\
#!ipxe
kernel http://{host}:{port}/kernel {arguments} initrd=image
initrd http://{host}:{port}/image
boot
"""


def transitional(rom):
    """The ROM for a device of virtio 0.9.5. The driver in it knows both, but Debian's header names the new one only, and a
    BIOS runs no ROM that is another device's. All bytes of a ROM add up to 0."""
    header = struct.unpack_from("<H", rom, 0x18)[0]
    devices = struct.unpack_from("<H", rom, header + 8)[0]
    patched = bytearray(rom)
    for at in (header + 6, header + devices):
        check(struct.unpack_from("<H", rom, at)[0] == VIRTIO_1_NET, f"the ROM has no device {VIRTIO_1_NET:#x} at {at:#x}")
        struct.pack_into("<H", patched, at, TRANSITIONAL_NET)
    patched[CHECKSUM] = (patched[CHECKSUM] + sum(rom) - sum(patched)) % 256
    return bytes(patched)


class BootPair(HostPair):
    """A guest that boots from the host."""

    def __init__(self, binary, device):
        self.old = device.get("disable-modern") == "on"
        super().__init__(binary, device={"bootindex": 1, **device})

    def before_boot(self, host):
        rom = fetch.peers().network_rom().read_bytes()
        path = host.folder / "boot.rom"
        path.write_bytes(transitional(rom) if self.old else rom)
        self.settings[0]["device"]["romfile"] = path
        served = host.folder / "served"
        served.mkdir()
        shutil.copy(fetch.peers().kernel(), served / "kernel")
        shutil.copy(image.image(fetch.peers()), served / "image")
        (served / "boot.ipxe").write_text(SCRIPT.format(host=host.address, port=PORT, arguments=Guest.kernel_arguments(1)))
        host.start(f"exec python3 -m http.server --directory {served} {PORT}")
        host.dhcp_server("--enable-tftp", f"--tftp-root={served}", "--dhcp-boot=boot.ipxe")


def body(test, arguments):
    peers = fetch.peers()
    reason = enter_namespace(TOOLS) or (None if peers.network_rom() else "no ROM: the package ipxe-qemu")
    if reason:
        test.skip("a boot from the network", reason)
        return
    for kind, device in KINDS.items():
        with test.test(f"a guest boots from the host by iPXE, {kind}"):
            with BootPair(arguments.binary, device) as pair:
                for way in pair.ways():
                    traffic.transfer(*way, megabytes=4)
                check(("version_1" in pair.switch.port("vm1")["features"]) == (kind == "virtio 1"), "another virtio was agreed to")


if __name__ == "__main__":
    tap.main(__doc__, body)
