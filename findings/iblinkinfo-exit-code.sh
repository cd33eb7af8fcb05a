#!/usr/bin/env bash
# iblinkinfo, ibnetdiscover and ibswitches exit with 0 although a part of the fabric is missing.
#
# infiniband-diags 44.0-2 (Debian 12) on the simulator ibsim 0.10. The switch S2 answers no request
# (ibsim drops them all), so S2 and the host H2 behind it are unknown. The programs print a line to
# standard error, list the rest, and exit with 0.
#
# Seen:
#   ./libibnetdisc/query_smp.c:186; umad (DR path slid 0; dlid 0; 0,1,2 Attr 0x11:0) bad status 110; Connection timed out
#   iblinkinfo exits with 0, lists 0 lines of H2
#   ibnetdiscover exits with 0, lists 0 lines of H2
#   ibswitches exits with 0, lists 0 lines of H2
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

c iblinkinfo >out; grep -q H2 out # all is well so far
echo 'Error "S2" 100' >&3; sleep 1
for tool in iblinkinfo ibnetdiscover ibswitches; do
	code=0; c $tool >out 2>err || code=$?
	cat err; echo "$tool exits with $code, lists $(grep -c H2 out || true) lines of H2"
	grep -q "timed out" err && [ "$code" = 0 ] && ! grep -q H2 out && grep -q S1 out
done
