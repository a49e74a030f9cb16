"""Drives real peers of the switch: QEMU guests on software emulation or KVM, for the demo and the tests."""
