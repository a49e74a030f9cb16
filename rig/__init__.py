"""Drives real peers of the switch: QEMU guests, with KVM or under emulation, for the demo and the tests."""


class RigError(Exception):
    """Something went wrong outside this package; the text is one line and names the remedy if there is one."""
