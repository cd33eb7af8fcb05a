#!/usr/bin/env bash
# tshark numbers the service levels of an SLtoVLMappingTable wrongly.
#
# tshark 4.0.17 (Debian 12). The table gives each of the 16 service levels a virtual lane, in 4 bits, SL 0
# first. tshark prints the lanes in order, with a number behind each, which isn't the SL: it runs from 0 to 8,
# and two lanes share each number between. So "0x3(2)" is the lane of SL 3, not of SL 2.
#
# Seen, for the table that maps SL 0 to VL 0, SL 1 to VL 1 and so on, the lane and the number:
#   0x0(0) 0x1(1) 0x2(1) 0x3(2) 0x4(2) 0x5(3) 0x6(3) 0x7(4)
#   0x8(4) 0x9(5) 0xa(5) 0xb(6) 0xc(6) 0xd(7) 0xe(7) 0xf(8)
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 libpcap0.8=1.10.3-1 libc-ares2=1.18.1-3 liblua5.2-0=5.2.4-3 libsmi2ldbl=0.4.8+dfsg2-16 libsnappy1v5=1.1.9-3 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
cat > frames.py <<EOF
import struct

frames = []

def smp(attr, data):  # LRH, BTH, DETH, a SubnGetResp and the bytes of the two CRCs, which tshark does not check
    mad = struct.pack(">BBBBHBBQHHIQ", 1, 1, 1, 0x81, 0, 0, 0, 1, attr, 0, 0, 0) + bytes(32) + data.ljust(64, b"\\0") + bytes(128)
    bth = struct.pack(">BBHII", 0x64, 0, 0xffff, 0, 1)
    lrh = struct.pack(">BBHHH", 0xf0, 2, 0xffff, (32 + len(mad)) // 4, 0xffff)
    frames.append(lrh + bth + bytes(8) + mad + b"icrc" + b"vc")

smp(0x17, bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]))
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 147))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -o 'uat:user_dlts:"User 0 (DLT=147)","infiniband","0","","0",""' -r frames.pcap "$@" 2>/dev/null; }
tshark -V | sed -n 's/.*SL(x)toVL: //p' | xargs -n 8 | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
