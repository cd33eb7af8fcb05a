#!/usr/bin/env bash
# tshark shows half of a block of a multicast forwarding table.
#
# tshark 4.0.17 (Debian 12). A block of a switch's MulticastForwardingTable has 32 port masks of 16 bits, one
# a MLID. tshark shows the first 16. There are no fields for the others, so a filter on
# infiniband.multicastforwardingtable.portmask misses half of the groups.
#
# Seen, for a block with the masks 0x8001 to 0x8020:
#   masks: 16, first 0x8001, last 0x8010
#   frames with the mask 0x8010: 1
#   frames with the mask 0x8011: 0
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

smp(0x1b, struct.pack(">32H", *range(0x8001, 0x8021)))
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 147))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -o 'uat:user_dlts:"User 0 (DLT=147)","infiniband","0","","0",""' -r frames.pcap "$@" 2>/dev/null; }
{
	tshark -V | sed -n 's/^ *PortMask: \(0x....\).*/\1/p' >masks
	echo "masks: $(wc -l <masks), first $(head -1 masks), last $(tail -1 masks)"
	for mask in 0x8010 0x8011; do
		echo "frames with the mask $mask: $(tshark -Y "infiniband.multicastforwardingtable.portmask == $mask" | wc -l)"
	done
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
