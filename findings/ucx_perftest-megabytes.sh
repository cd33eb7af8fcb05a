#!/usr/bin/env bash
# The MB/s of ucx_perftest are MiB/s.
#
# UCX 1.13.1-1 (Debian 12). The bandwidth that ucx_perftest prints under "MB/s" is 4.6% lower than the
# time per message beside it says, because a megabyte has 1048576 bytes there. Network bandwidth is
# usually given in powers of ten, so a link's speed computed from this figure is too low.
#
# Seen, for messages of 1000000 bytes, the bandwidth as a share of bytes per microsecond:
#   |              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
#   0.954
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq ucx-utils=1.13.1-1 libucx0=1.13.1-1 libnuma1=2.0.16-1 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :) UCX_TLS=self
perftest() { usr/bin/ucx_perftest -l -t tag_bw -s 1000000 -n 300 -w 10 "$@"; } # a process with itself
{
	perftest | grep MB/s
	perftest -f -v | tail -1 | awk -F, '{printf "%.3f\n", $6 / (1000000 / $4)}' # overall_bw, overall_lat
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
