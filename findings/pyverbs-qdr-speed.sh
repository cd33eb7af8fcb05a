#!/usr/bin/env bash
# pyverbs calls the speed of a QDR port 5.0 Gbps.
#
# python3-pyverbs 44.0-2 (Debian 12). The speed of a port is a bit of the InfiniBand specification: 1 is 2.5 Gbps
# a lane, 2 is 5, 4 is 10 (QDR), 8 is FDR10, which is 10, too. speed_to_str, which pyverbs uses when it prints
# a PortAttr, gives 4 the speed of 2. So a 4X QDR port of 40 Gbps looks like one of 20.
#
# Seen:
#   1: 2.5 Gbps (1)
#   2: 5.0 Gbps (2)
#   4: 5.0 Gbps (4)
#   8: 10.0 Gbps (8)
#   16: 14.0 Gbps (16)
#   32: 25.0 Gbps (32)
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-pyverbs=44.0-2 libibverbs1=44.0-2 ibverbs-providers=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :) PYTHONPATH=usr/lib/python3/dist-packages
/usr/bin/python3 -c 'from pyverbs.device import speed_to_str
for bit in 1, 2, 4, 8, 16, 32: print(f"{bit}: {speed_to_str(bit)}")' | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
