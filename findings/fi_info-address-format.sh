#!/usr/bin/env bash
# fi_getinfo answers a request for IPv6 addresses with an IPv4 one.
#
# libfabric 1.17.0-3 (Debian 12). The hint addr_format (fi_info -a) says which addresses the caller
# takes. Alone it filters. Together with a source address of the other family, the providers tcp, udp and sockets
# return the family of the source, although "no data" would be the answer that fits both.
# A caller that lays a sockaddr_in6 over src_addr gets 16 bytes where it expects 28.
#
# Seen, for -a FI_SOCKADDR_IN6 -s 127.0.0.1:
#   tcp FI_EP_MSG: addr_format: FI_SOCKADDR_IN src_addrlen: 16
#   udp FI_EP_DGRAM: addr_format: FI_SOCKADDR_IN src_addrlen: 16
#   sockets FI_EP_MSG: addr_format: FI_SOCKADDR_IN src_addrlen: 16
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
for p in libfabric-bin=1.17.0-3 libfabric1=1.17.0-3 libpsm-infinipath1=3.3+20.604758e7-6.2 libpsm2-2=11.2.185-2 libibverbs1=44.0-2 ibverbs-providers=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 libnuma1=2.0.16-1; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
ln -s ../libpsm1/libpsm_infinipath.so.1.16 "$(dirname usr/lib/*/libfabric.so.1)/libpsm_infinipath.so.1"
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :)
for how in "tcp FI_EP_MSG" "udp FI_EP_DGRAM" "sockets FI_EP_MSG"; do
	echo "$how:" $(usr/bin/fi_info -v -p ${how% *} -t ${how#* } -a FI_SOCKADDR_IN6 -s 127.0.0.1 | grep -E "addr_format|src_addrlen")
done | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
