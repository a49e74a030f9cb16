"""Drives real peers of the switch: QEMU guests, with KVM or under emulation, for the demo and the tests."""


class RigError(Exception):
    """Something went wrong outside this package; the text is one line and names the remedy if there is one."""


def check(condition, complaint):
    """Fails what is under way, with a complaint in place of a traceback."""
    if not condition:
        raise RigError(complaint)
