#!/usr/bin/env bash
# dump_fts and ibroute name the same directed route differently.
#
# infiniband-diags 44.0-2 (Debian 12) on the simulator ibsim 0.10. The LIDs at both ends of a
# directed route are the permissive LID, 65535, which is what ibroute prints and what the request
# contains. dump_fts, which prints the same tables in the same form, prints zeros.
#
# Seen:
#   dump_fts: Unicast lids [0x0-0x0] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000200000 (S1):
#   ibroute:  Unicast lids [0x0-0x0] of switch DR path slid 65535; dlid 65535; 0,1 guid 0x0000000000200000 (S1):
set -euo pipefail
dir=$(mktemp -d); trap 'exec 3>&-; kill "${sim:-}" 2>/dev/null || true; rm -rf "$dir"' EXIT; cd "$dir"
for p in infiniband-diags=44.0-2 libibmad5=44.0-2 libibumad3=44.0-2 libibnetdisc5=44.0-2 ibsim-utils=0.10-2 libumad2sim0=0.10-2; do
	apt-get download -qq "$p" 2>/dev/null
done
for deb in *.deb; do dpkg-deb -x "$deb" .; done
lib=$(dirname usr/lib/*/umad2sim); lib=$dir/$lib
cat > net <<EOF
Hca 1 "H1"
[1] "S1"[1]

Hca 1 "H2"
[1] "S2"[2]

Switch 4 "S1"
[1] "H1"[1]
[2] "S2"[1]

Switch 4 "S2"
[1] "S1"[2]
[2] "H2"[1]
EOF
mkfifo console; exec 3<>console; export IBSIM_SOCKNAME=finding$$ SIM_HOST=H1
usr/bin/ibsim -s net <console >ibsim.log 2>&1 & sim=$!
until grep -q "parsed .* lines" ibsim.log; do sleep 0.1; done; sleep 1
c() { LD_PRELOAD=$lib/umad2sim/libumad2sim.so LD_LIBRARY_PATH=$lib timeout 60 "$dir/usr/sbin/$@" 3>&-; }

c dump_fts >fts; c ibroute -D 0,1 >route
grep -h "(S1)" fts route
grep -q "DR path slid 0; dlid 0; 0,1 " fts && grep -q "DR path slid 65535; dlid 65535; 0,1 " route
