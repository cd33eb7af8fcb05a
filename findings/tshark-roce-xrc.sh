#!/usr/bin/env bash
# tshark names the operations of XRC and decodes none of their headers.
#
# tshark 4.0.17 (Debian 12). In the tree, the opcode of an XRC packet has its right name. The list
# of packets says "Unknown OpCode" of the same packet, and what follows the BTH (the XRCETH with the
# SRQ's number, the RETH) is vendor-specific data, so a filter on infiniband.reth.r_key misses
# XRC's WRITEs. The same RETH in an RC packet is decoded.
#
# Seen, opcode, R_Key and summary of a WRITE Only on XRC and on RC:
#   Opcode: Extended Reliable Connection (XRC) - RDMA WRITE Only (170)
#   Opcode: Reliable Connection (RC) - RDMA WRITE Only (10)
#   - Unknown OpCodeQP=0x000011
#   0x00000022 RC RDMA Write Only QP=0x000011
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

reth = struct.pack(">QII", 0x1000, 0x22, 4)
roce(0xAA, struct.pack(">I", 5) + reth + b"abcd")
roce(0x0A, reth + b"abcd")
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -r frames.pcap "$@" 2>/dev/null; }
{
	tshark -V | sed -n 's/^ *\(Opcode: .*\)/\1/p'
	tshark -o 'gui.column.format:"Info","%i"' -T fields -e infiniband.reth.r_key -e _ws.col.Info | sed 's/^\t/-\t/' | tr '\t' ' ' | sed 's/ *$//'
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
