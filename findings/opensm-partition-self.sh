#!/usr/bin/env bash
# opensm makes its own port a limited member of the default partition.
#
# opensm 3.3.23-2+b1 (Debian 12) on the simulator ibsim 0.10. The manual page says that the port of OpenSM
# always has full membership in the default partition. A rule ALL=limited takes it away, even after SELF=full
# in the same rule, because the last entry that matches a port wins. Limited members can't exchange packets
# with each other. The log has no error.
#
# Seen, the first P_Key of the ports of H1, where opensm runs, and of H2:
#   Default=0x7fff:ALL=limited,SELF=full; 0xffff 0x7fff
#   Default=0x7fff:SELF=full,ALL=limited; 0x7fff 0x7fff
#   Default=0x7fff:ALL=limited; 0x7fff 0x7fff
#   errors: 0
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'exec 3>&-; kill "${sim:-}" 2>/dev/null || true; rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 infiniband-diags=44.0-2 libibmad5=44.0-2 libibumad3=44.0-2 ibsim-utils=0.10-2 libumad2sim0=0.10-2 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
lib=$(dirname usr/lib/*/umad2sim); lib=$dir/$lib
cat > net <<EOF
Hca 1 "H1"
[1] "S1"[1]

Hca 1 "H2"
[1] "S1"[2]

Switch 4 "S1"
[1] "H1"[1]
[2] "H2"[1]
EOF
mkfifo console; exec 3<>console; export IBSIM_SOCKNAME=finding$$ SIM_HOST=H1 OSM_TMP_DIR=$dir OSM_CACHE_DIR=$dir
usr/bin/ibsim -s net <console >ibsim.log 2>&1 & sim=$!
until grep -q "parsed .* lines" ibsim.log; do sleep 0.1; done; sleep 1
c() { LD_PRELOAD=$lib/umad2sim/libumad2sim.so LD_LIBRARY_PATH=$lib timeout 60 "$dir/usr/sbin/$@" 3>&-; }

for rule in "ALL=limited,SELF=full" "SELF=full,ALL=limited" "ALL=limited"; do
	echo "Default=0x7fff:$rule;" | tee partitions.conf | tr '\n' ' '
	c opensm -o -r -P partitions.conf -f osm.log >opensm.out 2>&1
	echo $(for route in 0 0,1,2; do c smpquery -D pkeys $route 1 | sed -n 's/^ *0: \(0x....\).*/\1/p'; done)
done >out
echo "errors: $(grep -c ERR osm.log || true)" >>out
cat out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
