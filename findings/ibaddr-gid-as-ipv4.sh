#!/usr/bin/env bash
# ibaddr prints the end of a GID as an IPv4 address.
#
# infiniband-diags 44.0-2 (Debian 12) on the simulator ibsim 0.10. The GID of a port that has no subnet
# prefix yet is its GUID behind 64 zeros. ibaddr passes it to inet_ntop, which takes such an address,
# if the GUID has few digits, for an IPv4-compatible IPv6 address. smpquery prints the GUID itself in hexadecimal.
#
# Seen, for the GUID 0x0000000000100001:
#   GID ::0.16.0.1 LID start 0x0 end 0x0
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

c ibaddr -D 0 | tee out
c smpquery -D nodeinfo 0 | tee info
grep -q "^GID ::0.16.0.1 " out && grep -q "^PortGuid:\.*0x0000000000100001$" info
