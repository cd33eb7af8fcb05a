#!/usr/bin/env bash
# ibqueryerrors exits with 0 although it could read no counter.
#
# infiniband-diags 44.0-2 (Debian 12) on the simulator ibsim 0.10. Without a subnet manager
# ibqueryerrors can't resolve any path, prints one line of warning a port to standard error, nothing
# to standard output, and exits with 0. So a script that looks at the exit code takes a fabric that it
# could not check for one without errors. Other tools of the package exit with 255 here.
#
# Seen:
#   ibwarn: [26084] sa_get_handle: No SM/SA found on port (null):0
#   exit code 0, and no line of output
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

code=0; c ibqueryerrors >out 2>err || code=$?
cat err; echo "exit code $code, and $(wc -l <out) lines of output"
other=0; c perfquery 1 1 >/dev/null 2>&1 || other=$?
echo "perfquery exits with $other"
grep -q "No SM/SA found" err && [ "$code" = 0 ] && [ ! -s out ] && [ "$other" = 255 ]
