#!/usr/bin/env bash
# A soft RoCE device takes all InfiniBand cards out of node_exporter, and the log says nothing.
#
# prometheus-node-exporter 1.5.0 (Debian 12) on a tree with the files of sysfs. Devices of rxe and siw have no
# directory "counters" in their ports, because their drivers answer no management datagrams. The collector
# treats the missing directory like a host without InfiniBand: it exports no device, not even those whose
# files are complete, and logs nothing at the default level. Only node_scrape_collector_success shows it.
#
# Seen:
#   mlx5_0: success 1, metrics of mlx5_0: 4, warnings about it: 0
#   mlx5_0 and rxe0: success 0, metrics of mlx5_0: 0, warnings about it: 0
#   mlx5_0 and rxe0 with an empty directory counters: success 1, metrics of mlx5_0: 4, warnings about it: 0
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'kill "${exporter:-}" 2>/dev/null || true; rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq prometheus-node-exporter=1.5.0-1+b6 2>/dev/null
dpkg-deb -x *.deb .
device() { # a device without counters, with the files that the kernel has for every driver
	mkdir -p "sys/class/infiniband/$1/ports/1"
	cd "sys/class/infiniband/$1"
	echo 28.35.1012 >fw_ver; echo MT_0000000010 >board_id; echo MT4119 >hca_type
	echo "4: ACTIVE" >ports/1/state; echo "5: LinkUp" >ports/1/phys_state; echo "100 Gb/sec (4X EDR)" >ports/1/rate
	cd "$dir"
}
try() {
	usr/bin/prometheus-node-exporter --path.sysfs=sys --collector.disable-defaults --collector.infiniband --web.listen-address=127.0.0.1:0 >log 2>&1 & exporter=$!
	until grep -q "Listening on" log; do sleep 0.1; done
	curl -sf "http://$(grep -oE '127\.0\.0\.1:[0-9]+' log | head -1)/metrics" >page
	kill "$exporter"; wait "$exporter" || true
	echo "$1: success $(sed -n 's/^node_scrape_collector_success{collector="infiniband"} //p' page), metrics of mlx5_0: $(grep -c 'device="mlx5_0"' page || true), warnings about it: $(grep -cE 'level=(warn|error).*(infiniband|rxe0)' log || true)"
}
{
	device mlx5_0; mkdir sys/class/infiniband/mlx5_0/ports/1/counters
	try mlx5_0
	device rxe0
	try "mlx5_0 and rxe0"
	mkdir sys/class/infiniband/rxe0/ports/1/counters
	try "mlx5_0 and rxe0 with an empty directory counters"
} >out
cat out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
