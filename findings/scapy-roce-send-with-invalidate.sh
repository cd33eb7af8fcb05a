#!/usr/bin/env bash
# scapy has no name for a SEND with invalidate.
#
# scapy 2.5.0 (Debian 12, scapy.contrib.roce). The InfiniBand specification numbers two operations
# of the reliable connection behind FETCH ADD (0x14): SEND Last with Invalidate (0x16) and SEND Only
# with Invalidate (0x17). scapy's table ends at
# FETCH ADD: it prints both as numbers and its function opcode() knows neither name.
#
# Seen:
#   0x14 RC_FETCH_ADD
#   0x16 22
#   0x17 23
#   opcode("RC", "SEND_ONLY"): 4
#   opcode("RC", "SEND_ONLY_WITH_INVALIDATE"): KeyError
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-scapy=2.5.0+dfsg-2 2>/dev/null
dpkg-deb -x *.deb .
cat > try.py <<EOF
from scapy.layers.inet import IP, UDP
from scapy.contrib.roce import BTH, opcode

for code in 0x14, 0x16, 0x17:
    print(hex(code), BTH(opcode=code).sprintf("%BTH.opcode%"))
for name in "SEND_ONLY", "SEND_ONLY_WITH_INVALIDATE":
    try:
        print('opcode("RC", "%s"):' % name, opcode("RC", name)[0])
    except KeyError:
        print('opcode("RC", "%s"): KeyError' % name)
EOF
PYTHONPATH=usr/lib/python3/dist-packages python3 -W ignore try.py | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
