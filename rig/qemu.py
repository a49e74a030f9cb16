"""Runs the QEMU of the demo's guests, with its libraries and firmware: python3 -m rig.qemu QEMU'S ARGUMENTS."""
import os
import sys

from rig import RigError, fetch


def main():
    try:
        peers = fetch.peers()
    except RigError as error:
        sys.exit(f"qemu: {error}")
    os.execve(peers.qemu(), [*peers.qemu_command(), *sys.argv[1:]], peers.env)


if __name__ == "__main__":
    main()
