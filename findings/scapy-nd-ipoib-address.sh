#!/usr/bin/env bash
# scapy loses the options behind the link-layer address in an IPoIB host's neighbour discovery.
#
# scapy 2.5.0 (Debian 12). The option's length field says how long a link-layer address is: one unit of
# eight bytes on Ethernet, three on IPoIB, where two bytes of padding come before the 20 of the address (RFC 4391).
# scapy always takes six bytes and shows the padding as their beginning. The rest of the option and every
# option after it are raw bytes, so the MTU of a router advertisement is not found.
#
# Seen, address, next layer and MTU of a router advertisement on Ethernet and on IPoIB:
#   00:02:c9:00:00:01 ICMPv6NDOptMTU 2044
#   00:00:80:00:00:48 Raw None
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-scapy=2.5.0+dfsg-2 2>/dev/null
dpkg-deb -x *.deb .
cat > try.py <<EOF
import struct

from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6NDOptMTU, ICMPv6NDOptSrcLLAddr

ethernet = bytes([1, 1]) + bytes.fromhex("0002c9000001")
infiniband = bytes([1, 3, 0, 0]) + bytes.fromhex("80000048fe80000000000000e41d2d03000a0b0c")
for option in ethernet, infiniband:
    ra = ICMPv6ND_RA(bytes([134, 0, 0, 0, 64, 0, 7, 8]) + bytes(8) + option + struct.pack(">BBHI", 5, 1, 0, 2044))
    address = ra[ICMPv6NDOptSrcLLAddr]
    mtu = ra[ICMPv6NDOptMTU].mtu if ICMPv6NDOptMTU in ra else None
    print(address.lladdr, type(address.payload).__name__, mtu)
EOF
PYTHONPATH=usr/lib/python3/dist-packages python3 -W ignore try.py 2>/dev/null | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
