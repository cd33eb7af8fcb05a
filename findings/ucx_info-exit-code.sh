#!/usr/bin/env bash
# ucx_info -c leaves out a table of the configuration that has an error, and exits with 0.
#
# UCX 1.13.1-1 (Debian 12). One variable with a value that UCX refuses (1KiB; it wants 1KB) costs
# all variables of its table, here those of UCP, among them UCX_TLS and UCX_NET_DEVICES. The error is printed,
# but the exit code is the one of success, so a script that reads the configuration finds them missing.
#
# Seen:
#   UCX_RNDV_THRESH=1KB: exit code 0, UCX_TLS and UCX_NET_DEVICES: 2, errors: 0
#   UCX_RNDV_THRESH=1KiB: exit code 0, UCX_TLS and UCX_NET_DEVICES: 0, errors: 1
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
for p in ucx-utils=1.13.1-1 libucx0=1.13.1-1 libnuma1=2.0.16-1; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :)
for set in UCX_RNDV_THRESH=1KB UCX_RNDV_THRESH=1KiB; do
	code=0; env "$set" usr/bin/ucx_info -c >list 2>&1 || code=$?
	echo "$set: exit code $code, UCX_TLS and UCX_NET_DEVICES: $(grep -cE "^UCX_(TLS|NET_DEVICES)=" list || true), errors: $(grep -c "ERROR Invalid" list || true)"
done | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
