#!/usr/bin/env bash
# UCX takes the digits at the beginning of an integer and drops the rest without a word.
#
# UCX 1.13.1-1 (Debian 12). A traffic class is often written in hexadecimal. As 0x6a UCX takes it
# for 0, so the packets leave with traffic class 0. A queue of 1k entries gets one. Neither
# warns. Memory sizes are checked: the same 0x10 for a threshold is an error, and 1k is 1024.
#
# Seen, as set and as ucx_info -c shows it:
#   UCX_RC_VERBS_TRAFFIC_CLASS=0x6a UCX_RC_VERBS_TRAFFIC_CLASS=0
#   UCX_RC_VERBS_TRAFFIC_CLASS=106 UCX_RC_VERBS_TRAFFIC_CLASS=106
#   UCX_RC_VERBS_TX_QUEUE_LEN=1k UCX_RC_VERBS_TX_QUEUE_LEN=1
#   UCX_RNDV_THRESH=1k UCX_RNDV_THRESH=1K
#   UCX_RNDV_THRESH=0x10 ERROR Invalid value for RNDV_THRESH: '0x10'
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
for p in ucx-utils=1.13.1-1 libucx0=1.13.1-1 libnuma1=2.0.16-1; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu | tr ' ' :)
for set in UCX_RC_VERBS_TRAFFIC_CLASS=0x6a UCX_RC_VERBS_TRAFFIC_CLASS=106 UCX_RC_VERBS_TX_QUEUE_LEN=1k UCX_RNDV_THRESH=1k UCX_RNDV_THRESH=0x10; do
	echo "$set" $(env "$set" usr/bin/ucx_info -c 2>&1 | grep -oE "^${set%=*}=.*|(ERROR|WARN) [^.]*")
done | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
