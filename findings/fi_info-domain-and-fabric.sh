#!/usr/bin/env bash
# fi_info -d NAME and -f NAME list the domains and fabrics of every other name, too.
#
# libfabric 1.17.0-3 (Debian 12). The two options put the name into the hints of fi_getinfo. The
# providers tcp, udp and sockets ignore it there: the list is the one without the option, even if nothing has the
# name, and the exit code is 0. An unknown provider (-p) is "no data", exit code 61. So a program that gives
# a domain's name as a hint has to compare the names of what comes back.
#
# Seen:
#   tcp -d nosuch: exit code 0, same list as without
#   tcp -f nosuch: exit code 0, same list as without
#   udp -d nosuch: exit code 0, same list as without
#   udp -f nosuch: exit code 0, same list as without
#   sockets -d nosuch: exit code 0, same list as without
#   sockets -f nosuch: exit code 0, same list as without
#   -p nosuch: exit code 61
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
for p in libfabric-bin=1.17.0-3 libfabric1=1.17.0-3 libpsm-infinipath1=3.3+20.604758e7-6.2 libpsm2-2=11.2.185-2 libibverbs1=44.0-2 ibverbs-providers=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 libnuma1=2.0.16-1; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
ln -s ../libpsm1/libpsm_infinipath.so.1.16 "$(dirname usr/lib/*/libfabric.so.1)/libpsm_infinipath.so.1"
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :)
{
	for p in tcp udp sockets; do
		usr/bin/fi_info -p $p >all; [ -s all ]
		for o in -d -f; do
			code=0; usr/bin/fi_info -p $p $o nosuch >some || code=$?
			echo "$p $o nosuch: exit code $code, $(cmp -s all some && echo same || echo other) list as without"
		done
	done
	code=0; usr/bin/fi_info -p nosuch >some 2>&1 || code=$?
	echo "-p nosuch: exit code $code"
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
