#!/usr/bin/env bash
# scapy leaves the invariant CRC of RoCEv2 over IPv6 at zero.
#
# scapy 2.5.0 (Debian 12, scapy.contrib.roce). Over IPv4 scapy computes the ICRC that the
# specification of RoCEv2 asks for. Over IPv6, where the same specification masks the traffic class,
# the flow label and the hop limit, it warns and builds the frame with four zero bytes; a receiver that
# checks the ICRC drops it.
#
# Seen, the ICRC that scapy built beside the one computed from the frame's bytes:
#   WARNING: The underlayer protocol IPv6 is not supported.
#   IPv4 a1661c2b a1661c2b
#   IPv6 00000000 a4e3c2ee
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-scapy=2.5.0+dfsg-2 2>/dev/null
dpkg-deb -x *.deb .
cat > try.py <<EOF
import struct, zlib
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from scapy.contrib.roce import BTH

def icrc(frame):
    b = bytearray(frame[:-4])
    if b[0] >> 4 == 4:
        n = 20
        b[1] = b[8] = b[10] = b[11] = 255  # TOS, TTL, header checksum
    else:
        n = 40
        b[0] |= 15
        b[1] = b[2] = b[3] = b[7] = 255  # traffic class, flow label, hop limit
    b[n + 6] = b[n + 7] = 255  # UDP checksum
    b[n + 12] = 255  # reserved byte of the BTH
    return struct.pack("<I", zlib.crc32(b"\\xff" * 8 + bytes(b)))

for name, ip in ("IPv4", IP(src="1.1.1.1", dst="2.2.2.2")), ("IPv6", IPv6(src="fe80::1", dst="fe80::2")):
    frame = bytes(ip / UDP(sport=5, dport=4791) / BTH(opcode=4, psn=1, dqpn=3, ackreq=1) / Raw(b"abcd"))
    print(name, frame[-4:].hex(), icrc(frame).hex())
EOF
PYTHONPATH=usr/lib/python3/dist-packages python3 -W ignore try.py | tee out
grep -qx "IPv4 a1661c2b a1661c2b" out && grep -qx "IPv6 00000000 a4e3c2ee" out
