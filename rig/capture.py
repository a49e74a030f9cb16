"""Checks the checksums of what arrives at a device as its raw sockets see it, after the kernel has taken the frame in.

At the host, what a frame says of itself decides what has to be in it: where the kernel tells (PACKET_AUXDATA) that the checksum is
still to be made, the field must hold the sum of the pseudo header, else the true checksum."""
import re
import socket
import struct
import threading

from rig import RigError

SOL_PACKET = 263
PACKET_AUXDATA = 8
ETH_P_IP = 0x0800
TP_STATUS_CSUMNOTREADY = 8
CHECKSUM_AT = {socket.IPPROTO_TCP: 16, socket.IPPROTO_UDP: 6}
ETHERNET = 14
BUFFER = 8 << 20
SNIFFED = 100
LOADS = {"tcp": "", "udp": "-u -b 50M -l 1000"}  # iperf3's words


def wrong(frame, unfinished):
    """What is wrong with the checksums of an IPv4 frame, or None."""
    size = (frame[ETHERNET] & 15) * 4
    header = frame[ETHERNET:ETHERNET + size]
    total, protocol = int.from_bytes(header[2:4], "big"), header[9]
    if int.from_bytes(header, "big") % 0xFFFF:
        return "IP header"
    fragment = int.from_bytes(header[6:8], "big") & 0x3FFF
    at = CHECKSUM_AT.get(protocol)
    if at is None or fragment:
        return None
    segment = frame[ETHERNET + size:ETHERNET + total]
    if protocol == socket.IPPROTO_UDP and segment[at:at + 2] == b"\0\0":
        return None
    pseudo = header[12:20] + struct.pack("!HH", protocol, len(segment))
    expected = int.from_bytes(pseudo, "big") % 0xFFFF
    if unfinished:
        found = int.from_bytes(segment[at:at + 2], "big") % 0xFFFF
        return None if found == expected else "unfinished"
    padded = segment + b"\0" * (len(segment) % 2)
    return "finished" if (int.from_bytes(padded, "big") + expected) % 0xFFFF else None


class Capture:
    """Looks at what arrives at a host's tap, for as long as it is entered; may miss frames when there are many."""

    def __init__(self, host):
        self.socket = host.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.settimeout(0.2)
        with host.inside():
            self.socket.bind((host.device, ETH_P_IP))
        self.frames = self.unfinished = 0
        self.bad = {}
        self.over = False
        self.thread = threading.Thread(target=self._look)

    def _look(self):
        while not self.over:
            try:
                frame, auxiliary, *_ = self.socket.recvmsg(1 << 17, socket.CMSG_SPACE(20))
            except TimeoutError:
                continue
            status = next(struct.unpack("I", data[:4])[0] for level, kind, data in auxiliary
                          if (level, kind) == (SOL_PACKET, PACKET_AUXDATA))
            unfinished = bool(status & TP_STATUS_CSUMNOTREADY)
            self.frames += 1
            self.unfinished += unfinished
            complaint = wrong(frame, unfinished)
            if complaint:
                self.bad[complaint] = self.bad.get(complaint, 0) + 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.socket.close()

    def __str__(self):
        return f"{self.frames} frames, {self.unfinished} with a checksum to be made"


class Sniffer:
    """tcpdump in a guest, which knows nothing of checksums that are left to be made, as a DHCP client that reads raw."""

    def __init__(self, guest, count, expression, device="eth0"):
        self.count = count
        self.job = guest.start(f"timeout 60 tcpdump -Z root -vv -n -i {device} -Q in -s 2000 -c {count} '{expression}' "
                               "2>sniffer")
        guest.output("until grep -q listening sniffer; do sleep 0.1; done; rm sniffer", timeout=20)

    def check(self):
        """Every frame had the checksum of its bytes, of UDP or TCP."""
        text = self.job.output(90)
        right = len(re.findall(r"udp sum ok|cksum 0x\w+ \(correct\)", text))
        wrong = len(re.findall(r"bad udp cksum|incorrect ->", text))
        if wrong or right < self.count:
            raise RigError(f"of {self.count} checksums {right} were right and {wrong} wrong")


def check_finished(sender, receiver, device="eth0"):
    """Nothing that arrives at a guest's device has a checksum that is still to be made, large segments or not."""
    devices = {"eth0", device}
    for name in devices:
        receiver.output(f"ethtool -K {name} gro off")
    for protocol, words in LOADS.items():
        sniffer = Sniffer(receiver, SNIFFED, f"{protocol} and greater 200", device)
        sender.output(f"iperf3 -c {receiver.address} -t 1 {words}")
        sniffer.check()
    for name in devices:
        receiver.output(f"ethtool -K {name} gro on")
