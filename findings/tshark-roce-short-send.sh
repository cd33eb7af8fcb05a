#!/usr/bin/env bash
# tshark calls an RC SEND of at most 12 bytes malformed.
#
# tshark 4.0.17 (Debian 12). The payload of a SEND on a reliable connection is tried as RPC-over-RDMA,
# whose header has 16 bytes. If there are fewer, the packet is shown as malformed, without
# its payload and ICRC, although it is valid. On an unreliable connection the same
# bytes are data, and with --disable-protocol rpcordma they are on a reliable one, too.
#
# Seen, for a SEND Only of 4, 12 and 16 bytes on RC, and of 4 bytes on UC:
#   RC Send Only QP=0x000011 [Malformed Packet]
#   RC Send Only QP=0x000011 [Malformed Packet]
#   RC Send Only QP=0x000011
#   UC Send Only QP=0x000011
#   with --disable-protocol rpcordma, malformed: 0
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

for size in 4, 12, 16:
    roce(0x04, b"a" * size)
roce(0x24, b"a" * 4)
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -r frames.pcap "$@" 2>/dev/null; }
tshark -o 'gui.column.format:"Info","%i"' | sed 's/ *$//' >out
echo "with --disable-protocol rpcordma, malformed: $(tshark --disable-protocol rpcordma | grep -c Malformed)" >>out || true
cat out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
