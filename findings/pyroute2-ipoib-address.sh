#!/usr/bin/env bash
# pyroute2 keeps six bytes of the hardware address of an IPoIB interface.
#
# pyroute2 0.7.2-2 (Debian 12). The hardware address of IPoIB has 20 bytes: flags and the number of a QP, and
# the port's GID. pyroute2 decodes the first six of a link's address, which end within the prefix of the GID,
# so they don't identify the port. The broadcast address loses its P_Key. There is no error. The same address
# of a neighbour is decoded whole, but with a warning that its size is invalid and a request to report it.
#
# Seen:
#   link address: 80:00:00:48:fe:80
#   link broadcast: 00:ff:ff:ff:ff:12
#   neighbour: unknown or invalid lladdr size, please report to: https://github.com/svinota/pyroute2/issues/717
#   neighbour address: 80:00:00:48:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:0a:0b:0c
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-pyroute2=0.7.2-2 2>/dev/null
dpkg-deb -x *.deb .
cat > try.py <<EOF
import logging
import struct

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg


class Print(logging.Handler):
    def emit(self, record):
        print("neighbour:", record.getMessage().splitlines()[0].strip())


def attr(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data


def decoded(cls, kind, body):
    m = cls(struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body)
    m.decode()
    return m


logging.getLogger().addHandler(Print())
address = bytes.fromhex("80000048fe80000000000000e41d2d03000a0b0c")
broadcast = bytes.fromhex("00ffffffff12401b8001000000000000ffffffff")

infiniband = 32  # ARPHRD_INFINIBAND
body = struct.pack("=BxHiII", 0, infiniband, 5, 0x1043, 0) + attr(3, b"ib0\0") + attr(1, address) + attr(2, broadcast)
link = decoded(ifinfmsg, 16, body)  # RTM_NEWLINK
print("link address:", link.get_attr("IFLA_ADDRESS"))
print("link broadcast:", link.get_attr("IFLA_BROADCAST"))

body = struct.pack("=BxxxiHBB", 2, 5, 2, 0, 1) + attr(1, bytes([10, 0, 0, 1])) + attr(2, address)
print("neighbour address:", decoded(ndmsg, 28, body).get_attr("NDA_LLADDR"))  # RTM_NEWNEIGH
EOF
PYTHONPATH=usr/lib/python3/dist-packages python3 -W ignore try.py | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
