#!/usr/bin/env bash
# tshark counts the padding of a RoCE packet as data.
#
# tshark 4.0.17 (Debian 12). The payload of a packet is padded to a multiple of four bytes, and the
# pad count in the BTH says how many bytes at the end are no data. tshark prints the count and gives
# the padding to the user's data all the same, so data.len of a message can be up to 3 too high.
#
# Seen, pad count, length and bytes, for "abcd" and for "abc" and "a" with their padding:
#   0 4 61626364
#   1 4 61626300
#   3 4 61000000
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

roce(0x24, b"abcd")
roce(0x24, b"abc\\0", pad=1)
roce(0x24, b"a\\0\\0\\0", pad=3)
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -r frames.pcap "$@" 2>/dev/null; }
tshark -T fields -E separator=' ' -e infiniband.bth.padcnt -e data.len -e data.data | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
