#!/usr/bin/env bash
# nvme-cli does not read back two parameters of a connection that it writes.
#
# nvme-cli 2.3 with libnvme 1.3 (Debian 12). The configuration in JSON has the parameters of each connection.
# "tos" is the type of service, and "ctrl_loss_tmo" says how long to try to reconnect. "nvme config --modify"
# writes both. When nvme reads the same file, it drops these two.
#
# Seen, the difference between a configuration and what nvme makes of it:
#   < "ctrl_loss_tmo":9
#   < "tos":106
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
apt-get download -qq nvme-cli=2.4+really2.3-3 libnvme1=1.3-1+deb12u1 libjson-c5=0.16-2 2>/dev/null
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu lib/*-linux-gnu | tr ' ' :)
mkdir -p sys/class/nvme sys/class/nvme-subsystem # a host without controllers
nvme() { unshare -rm sh -c 'mount --bind sys /sys && exec usr/sbin/nvme "$@"' nvme "$@"; }
host=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001
port="-q $host -n nqn.2014-08.com.example:disk -t rdma -a 192.0.2.1 -s 4420"

echo '[]' >config.json
nvme config --modify -J config.json $port -i 4 -Q 64 -k 7 -c 8 -l 9 -T 106 -O >written
nvme config --scan -J written -O >read
diff <(tr -d ' ,' <written) <(tr -d ' ,' <read) | grep '[<>]' >out || true
cat written out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
