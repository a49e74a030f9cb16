"""A machine without a disk boots from the host over ringway: iPXE in the ROM of QEMU's virtio-net gets an address and a
script (DHCP, TFTP), the kernel and its initramfs (HTTP), and then Linux is a guest as any. Run from the top of the source
tree: python3 -m tests.guests.test_netboot build/ringway

Wants root; runs in network namespaces of its own. iPXE checks every checksum, has one small ring, polls it, and hands it
over to Linux's driver in the end."""
import gzip
import shutil

from rig import check, fetch, image, tap, traffic
from rig.guest import Guest
from rig.host import HostPair, enter_namespace

TOOLS = ("ip", "iperf3", "unshare", "nsenter", "dnsmasq")
PORT = 8080
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


class BootPair(HostPair):
    """A guest that boots from the host."""

    def __init__(self, binary, device):
        super().__init__(binary, device=device, netboot=True)

    def before_boot(self, host):
        served = host.folder / "served"
        served.mkdir()
        shutil.copy(fetch.peers().kernel(), served / "kernel")
        (served / "image").write_bytes(gzip.compress(image.image(fetch.peers()).read_bytes(), 1))
        (served / "boot.ipxe").write_text(SCRIPT.format(host=host.address, port=PORT, arguments=Guest.kernel_arguments(1)))
        host.start(f"exec python3 -m http.server --directory {served} {PORT}")
        host.dhcp_server("--enable-tftp", f"--tftp-root={served}", "--dhcp-boot=boot.ipxe")


def body(test, arguments):
    peers = fetch.peers()
    reason = enter_namespace(TOOLS) or (None if peers.network_boot() else "no iPXE: install ipxe-qemu")
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
