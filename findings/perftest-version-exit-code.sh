#!/usr/bin/env bash
# ib_write_bw --version prints its version and exits with 1.
#
# perftest 4.5+0.17-1 (Debian 12). The version goes to standard output and nothing to standard error,
# as of a command that succeeded, and the exit code is the one of a failure. So a script under
# "set -e" that records the version ends there. The number is 6.06, where the package has 4.5.
#
# Seen, the same for ib_send_lat and ib_read_bw:
#   Version: 6.06
#   exit code 1, and 0 bytes on standard error
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
for p in perftest=4.5+0.17-1 libibverbs1=44.0-2 librdmacm1=44.0-2 libibumad3=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 libpci3=1:3.9.0-4; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
lib=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :)
for tool in ib_write_bw ib_send_lat ib_read_bw; do
	code=0; LD_LIBRARY_PATH=$lib usr/bin/$tool --version >out 2>err || code=$?
	cat out; echo "exit code $code, and $(wc -c <err) bytes on standard error"
	grep -qx "Version: 6.06" out && [ "$code" = 1 ] && [ ! -s err ]
done
