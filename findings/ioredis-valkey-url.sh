#!/usr/bin/env bash
# ioredis takes a URL whose scheme it doesn't know for the path of a Unix socket.
#
# ioredis 6.0.0 (npm). Valkey's own clients know valkey://. ioredis neither knows this scheme nor refuses it,
# or rdma://: its options say host "valkey", and the client connects to a Unix socket whose path is everything
# after the scheme. The number of the database is part of the path. The error says that a file doesn't exist,
# and doesn't name the scheme.
#
# Seen:
#   redis://127.0.0.1:6399/2: 127.0.0.1 6399 - 2
#   valkey://127.0.0.1:6399/2: valkey 6379 //127.0.0.1:6399/2 0
#   rdma://127.0.0.1:6399: rdma 6379 //127.0.0.1:6399 0
#   connect: connect ENOENT //127.0.0.1:6399
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
npm init -y >/dev/null
npm install --silent --ignore-scripts ioredis@6.0.0 >/dev/null
cat > try.js <<EOF
const Redis = require('ioredis')

for (const url of ['redis://127.0.0.1:6399/2', 'valkey://127.0.0.1:6399/2', 'rdma://127.0.0.1:6399']) {
  const { host, port, path, db } = new Redis(url, { lazyConnect: true }).options
  console.log(url + ':', host, port, path || '-', db)
}
const client = new Redis('rdma://127.0.0.1:6399', { lazyConnect: true, retryStrategy: null })
client.on('error', err => console.log('connect:', err.message))
client.connect().catch(() => {})
EOF
node try.js | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
