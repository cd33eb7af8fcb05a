#!/usr/bin/env bash
# scapy decodes the AETH of an acknowledgement, and of no RDMA READ response.
#
# scapy 2.5.0 (Debian 12, scapy.contrib.roce). By the InfiniBand specification the first, the last
# and the only packet of an RDMA READ response, and an ATOMIC acknowledgement, have the ACK extended
# transport header behind the BTH, as an acknowledgement has. scapy binds its AETH layer to the opcode
# Acknowledge alone; in the others the four bytes of the header are the beginning of the payload. So
# a script that takes p[Raw].load for the data of a READ gets syndrome and MSN in front of it.
#
# Seen, for frames with syndrome 0x1f, MSN 7 and "abcd" behind it:
#   RC_ACKNOWLEDGE AETH b'abcd'
#   RC_RDMA_READ_RESPONSE_FIRST no AETH b'\x1f\x00\x00\x07abcd'
#   RC_RDMA_READ_RESPONSE_LAST no AETH b'\x1f\x00\x00\x07abcd'
#   RC_RDMA_READ_RESPONSE_ONLY no AETH b'\x1f\x00\x00\x07abcd'
#   RC_ATOMIC_ACKNOWLEDGE no AETH b'\x1f\x00\x00\x07abcd'
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-scapy=2.5.0+dfsg-2 2>/dev/null
dpkg-deb -x *.deb .
cat > try.py <<EOF
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw
from scapy.contrib.roce import AETH, BTH

for opcode in 0x11, 0x0D, 0x0F, 0x10, 0x12:
    frame = IP(src="1.1.1.1", dst="2.2.2.2") / UDP(sport=5, dport=4791) / BTH(opcode=opcode) / Raw(b"\\x1f\\0\\0\\x07abcd")
    p = IP(bytes(frame))
    print(p.sprintf("%BTH.opcode%"), "AETH" if AETH in p else "no AETH", p[Raw].load)
EOF
PYTHONPATH=usr/lib/python3/dist-packages python3 -W ignore try.py | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
