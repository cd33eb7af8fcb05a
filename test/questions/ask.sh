#!/bin/sh
# ask.sh KIND [OPTIONS] [GROUP...] asks a device of this kernel, on a link of its own.
set -e
kind=$1 address=10.85.0.1
shift
patience=
if [ "$1" = -w ]; then
	patience="-w $2"
	shift 2
fi
if [ -n "$(rdma link)" ]; then # rdma_cm takes the first device of the machine for 127.0.0.1
	echo "ask.sh: there are other devices:" $(rdma link) >&2
	exit 1
fi
ulimit -l 8192 # KiB: 6.1's siw applies it to root as well
ip link add gvask type dummy
ip addr add $address/24 dev gvask
ip link set gvask up
rdma link add gvask$kind type "$kind" netdev gvask
trap 'ip link del gvask' EXIT # and the device with it, if it is still there
"$(dirname "$0")"/../../bin/questions $patience "gvask$kind" $address "$@"
