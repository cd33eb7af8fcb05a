#!/usr/bin/env bash
# tshark has a dissector for InfiniBand packets, but can't read pcap files of them.
#
# tshark and editcap 4.0.17, tcpdump 4.99.3 (Debian 12). The link type 247 of pcap files is InfiniBand, from
# the local route header on. tcpdump knows its name, and copies such files. tshark refuses them, although
# editcap lists the encapsulation, and although tshark decodes the same packet from a file with a link type
# for private use (147, DLT_USER0) if a preference assigns that to the dissector.
#
# Seen, for a SEND Only from LID 1 to LID 2 and QP 0x11:
#   tcpdump: reading from file 247.pcap, link-type INFINIBAND (InfiniBand), snapshot length 65535
#   editcap -T: infiniband - InfiniBand
#   tshark, 247: (pcap: network type 247 unknown or unsupported)
#   tshark, 147: 1 2 4 0x000011
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq tcpdump=4.99.3-1 wireshark-common=4.0.17-0+deb12u3 tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 libpcap0.8=1.10.3-1 libc-ares2=1.18.1-3 liblua5.2-0=5.2.4-3 libsmi2ldbl=0.4.8+dfsg2-16 libsnappy1v5=1.1.9-3 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
cat > frames.py <<EOF
import struct

packet = struct.pack(">BBHHH", 0, 2, 2, 7, 1) + struct.pack(">BBHII", 4, 0, 0xffff, 0x11, 1) + b"abcd" + b"icrc" + b"vc"
for link in 247, 147:
    with open(f"{link}.pcap", "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, link))
        f.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
EOF
python3 frames.py
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :)
{
	echo "tcpdump: $(usr/bin/tcpdump -Z "$(id -un)" -r 247.pcap -w copy.pcap 2>&1 | head -1)"
	cmp copy.pcap 247.pcap
	echo "editcap -T: $(usr/bin/editcap -T 2>&1 | sed -n 's/^ *\(infiniband -\)/\1/p')"
	echo "tshark, 247: $(usr/bin/tshark -r 247.pcap 2>&1 | tail -1)"
	echo "tshark, 147:" $(usr/bin/tshark -r 147.pcap -o 'uat:user_dlts:"User 0 (DLT=147)","infiniband","0","","0",""' -T fields -e infiniband.lrh.slid -e infiniband.lrh.dlid -e infiniband.bth.opcode -e infiniband.bth.destqp 2>/dev/null)
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
