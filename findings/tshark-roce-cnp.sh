#!/usr/bin/env bash
# tshark doesn't know the congestion notification packet of RoCE v2.
#
# tshark 4.0.17 (Debian 12). RoCE v2's congestion control (DCQCN) needs one packet, the CNP, which has
# opcode 0x81 and 16 reserved bytes. tshark has no name for it. A filter has to compare the number.
#
# Seen:
#   Opcode: Unknown (129)
#   Unknown/Vendor Specific Data: 0000000000000000000000000000000069637263
#   infiniband.bth.opcode == 0x81 matches 1
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
for p in tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 libpcap0.8=1.10.3-1 libc-ares2=1.18.1-3 liblua5.2-0=5.2.4-3 libsmi2ldbl=0.4.8+dfsg2-16 libsnappy1v5=1.1.9-3; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
cat > frames.py <<EOF
import struct

frames = []

def roce(opcode, data, pad=0, qpn=0x11):  # IPv4, UDP, BTH, data and the bytes of an ICRC, which tshark doesn't check
    bth = struct.pack(">BBHII", opcode, 0x40 | pad << 4, 0xffff, qpn, 1)
    udp = struct.pack(">HHHH", 49152, 4791, 24 + len(data), 0)
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 44 + len(data), 0, 0x4000, 64, 17, 0, 0x01010101, 0x02020202)
    frames.append(ip + udp + bth + data + b"icrc")

roce(0x81, b"\\0" * 16)
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -r frames.pcap "$@" 2>/dev/null; }
{
	tshark -V | sed -n 's/^ *\(Opcode: .*\|Unknown.*\)/\1/p'
	echo "infiniband.bth.opcode == 0x81 matches $(tshark -Y 'infiniband.bth.opcode == 0x81' | wc -l)"
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
