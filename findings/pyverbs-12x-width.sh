#!/usr/bin/env bash
# pyverbs calls the width 12X invalid.
#
# python3-pyverbs 44.0-2 (Debian 12). A link of InfiniBand is 1X, 2X, 4X, 8X or 12X wide. The value of 12X is 8,
# and width_to_str, which pyverbs uses when it prints a PortAttr, has no text for it, although
# it has one for 2X, which is newer.
#
# Seen:
#   1: 1X (1)
#   2: 4X (2)
#   4: 8X (4)
#   8: Invalid width
#   16: 2X (16)
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq python3-pyverbs=44.0-2 libibverbs1=44.0-2 ibverbs-providers=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :) PYTHONPATH=usr/lib/python3/dist-packages
/usr/bin/python3 -c 'from pyverbs.device import width_to_str
for value in 1, 2, 4, 8, 16: print(f"{value}: {width_to_str(value)}")' | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
