#!/usr/bin/env bash
# tshark shows the direction bit of a directed route as 0, always.
#
# tshark 4.0.17 (Debian 12). The first bit of the status of an SMP with a directed route is 0 in requests and
# 1 in answers. tshark has a field for the bit, which is 0 in both. The field for the rest of the status
# contains the bit: an answer without an error has the status 0x8000.
#
# Seen, for the status 0 and 0x8000: the direction bit and the status
#   0x0000000000000000 0x0000
#   0x0000000000000000 0x8000
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 libpcap0.8=1.10.3-1 libc-ares2=1.18.1-3 liblua5.2-0=5.2.4-3 libsmi2ldbl=0.4.8+dfsg2-16 libsnappy1v5=1.1.9-3 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
cat > frames.py <<EOF
import struct

frames = []

def smp(method, status):  # LRH, BTH, DETH, an SMP for NodeInfo with a directed route and the bytes of the two CRCs, which tshark does not check
    mad = struct.pack(">BBBBHBBQHHIQ", 1, 0x81, 1, method, status, 1, 1, 1, 0x11, 0, 0, 0) + b"\\xff" * 4 + bytes(28) + bytes([1, 1, 2, 4]).ljust(64, b"\\0") + bytes([0, 1]).ljust(64, b"\\0") * 2
    bth = struct.pack(">BBHII", 0x64, 0, 0xffff, 0, 1)
    lrh = struct.pack(">BBHHH", 0xf0, 2, 0xffff, (32 + len(mad)) // 4, 0xffff)
    frames.append(lrh + bth + bytes(8) + mad + b"icrc" + b"vc")

smp(0x01, 0)  # SubnGet
smp(0x81, 0x8000)  # SubnGetResp
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 147))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -o 'uat:user_dlts:"User 0 (DLT=147)","infiniband","0","","0",""' -r frames.pcap "$@" 2>/dev/null; }
tshark -T fields -E separator=' ' -e infiniband.smpdirected.d -e infiniband.smpdirected.smpstatus | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
