#!/usr/bin/env bash
# ibping exits with 0 although nothing answered.
#
# infiniband-diags 44.0-2 (Debian 12) on the simulator ibsim 0.10. No ibping server runs on the port, so
# every request times out. The statistics say 100% packet loss, and the exit code is the one of
# success. The ping of IP exits with 1 there, so a script that waits for a
# port with "until ibping" goes on at once.
#
# Seen:
#   2 packets transmitted, 0 received, 100% packet loss
#   exit code 0
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

c opensm -o -f osm.log >opensm.out 2>&1 # gives the ports their LIDs
c smpquery -D portinfo 0,1,2 1 | sed -n 's/^Lid:\.*//p' >lid
code=0; c ibping -c 2 "$(cat lid)" >ibping.out 2>ibping.err || code=$?
cat ibping.err
{
	sed -n 's/, time .*//p' ibping.out
	echo "exit code $code"
} | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
