#!/usr/bin/env bash
# ompi_info lists btl_openib_mtu only where it has been set.
#
# Open MPI 4.1.4 (Debian 12). Unless the MTU of the openib component is set, ompi_info leaves the parameter
# out, even at the highest level of detail. So neither its name nor its valid values can be looked up. The
# values are those of the InfiniBand specification: 4 is 2048 bytes, and 2048 is an error, which lists them.
#
# Seen, the lines of ompi_info --param btl openib --level 9 about the MTU:
#   not set:
#   btl_openib_mtu=4: parameter "btl_openib_mtu" (current value: "2k"
#   btl_openib_mtu=2048: Valid values : 1:"256B", 2:"512B", 3:"1k", 4:"2k", 5:"4k"
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq openmpi-bin=4.1.4-3+b1 openmpi-common=4.1.4-3 libopenmpi3=4.1.4-3+b1 libhwloc15=2.9.0-1 libevent-core-2.1-7=2.1.12-stable-8 libevent-pthreads-2.1-7=2.1.12-stable-8 libibverbs1=44.0-2 librdmacm1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :)
export OPAL_PREFIX=$dir/usr OMPI_MCA_mca_base_component_path=$(echo "$dir"/usr/lib/*/openmpi/lib/openmpi3)
info() { usr/bin/ompi_info --param btl openib --level 9 >list 2>&1; grep -q '"btl_openib_gid_index"' list || echo no list; grep -oE 'parameter "btl_openib_mtu" [^,]*|Valid values : 1:"256B".*' list || true; }
{
	echo "not set:" $(info)
	for mtu in 4 2048; do
		echo "btl_openib_mtu=$mtu:" $(OMPI_MCA_btl_openib_mtu=$mtu info)
	done
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
