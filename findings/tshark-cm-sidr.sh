#!/usr/bin/env bash
# tshark decodes no SIDR message of the communication manager, and neither MRA nor LAP.
#
# tshark 4.0.17 (Debian 12). Programs that use datagrams through rdma_cm (RDMA_PS_UDP) find
# their peer's queue pair with SIDR_REQ and SIDR_REP. tshark names both and stops there: the service ID
# that is asked for and the QPN and Q_Key in the answer aren't shown. MRA and LAP stay as bare,
# while DREQ and DREP are decoded.
#
# Seen, for MRA, DREQ, DREP, SIDR_REQ, SIDR_REP and LAP:
#   CM MsgRcptAck (Dissector Not Implemented)
#   CM DisconnectRequest
#   CM DisconnectReply
#   CM ServiceIDResReq (Dissector Not Implemented)
#   CM ServiceIDResReqResp (Dissector Not Implemented)
#   CM LoadAlternatePath (Dissector Not Implemented)
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

for attribute in 0x11, 0x15, 0x16, 0x17, 0x18, 0x19:
    deth = struct.pack(">II", 0x80010000, 1)
    mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 0x77, attribute, 0, 0)
    roce(0x64, deth + mad + b"\\0" * 232, qpn=1)
with open("frames.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
    for frame in frames:
        f.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
EOF
python3 frames.py
tshark() { LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) usr/bin/tshark -r frames.pcap "$@" 2>/dev/null; }
tshark -V | sed -n 's/^ *\(CM .*\)/\1/p' | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
