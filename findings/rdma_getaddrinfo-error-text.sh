#!/usr/bin/env bash
# rdma_client calls the absence of RDMA devices a bad value for ai_flags.
#
# rdmacm-utils and librdmacm 44.0-2 (Debian 12), on a machine without RDMA devices. rdma_getaddrinfo returns
# -1 for errors that are in errno, and rdma_client, rdma_server and rdma_xclient print gai_strerror of what it
# returned. For the C library -1 is EAI_BADFLAGS, so the message is about a parameter that was right.
#
# Seen:
#   rping: No RDMA devices were detected
#   rdma_client: rdma_getaddrinfo: Bad value for ai_flags
#   rdma_server: rdma_getaddrinfo: Bad value for ai_flags
#   rdma_xclient: rdma_getaddrinfo: Bad value for ai_flags
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq rdmacm-utils=44.0-2 librdmacm1=44.0-2 libibverbs1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :)
say() { echo "$1: $(timeout 60 "usr/bin/$@" 2>&1 | grep -E "^(No RDMA|rdma_getaddrinfo)" || true)"; }
{
	say rping -c -a 127.0.0.1 -C 1
	say rdma_client -s 127.0.0.1
	say rdma_server
	say rdma_xclient
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
