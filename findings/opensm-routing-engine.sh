#!/usr/bin/env bash
# opensm announces a routing engine that it does not have, and routes with another.
#
# opensm 3.3.23-2+b1 (Debian 12) on the simulator ibsim 0.10. Most errors on opensm's command line end it,
# such as an LMC of 9. A name after -R that no engine has, here updown for updn, is repeated on standard
# output as if it were in use. The fabric is routed by Min Hop, and the exit code is 0. Only the log file says
# that the engine was not found.
#
# Seen:
#   -l 9: exit code 255, ERROR: LMC must be 7 or less.
#   -R updown: exit code 0, Activate 'updown' routing engine(s)
#   log: cannot find or setup routing engine 'updown'
#   log: minhop tables configured on all switches
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'exec 3>&-; kill "${sim:-}" 2>/dev/null || true; rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 libibmad5=44.0-2 libibumad3=44.0-2 ibsim-utils=0.10-2 libumad2sim0=0.10-2 2>/dev/null
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

code=0; c opensm -o -l 9 -f osm.log >opensm.out 2>&1 || code=$?
echo "-l 9: exit code $code, $(grep ERROR opensm.out)" >out
code=0; c opensm -o -R updown -f osm.log >opensm.out 2>&1 || code=$?
echo "-R updown: exit code $code, $(sed -n 's/^ *\(Activate .*\)/\1/p' opensm.out)" >>out
sed -n "s/.*\(cannot find or setup .*\|minhop tables .*\)/log: \1/p" osm.log >>out
cat out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
