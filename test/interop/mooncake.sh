#!/usr/bin/env bash
# mooncake.sh DIR: builds Mooncake's transfer engine in DIR, unless it is there, and runs it against package
# transfer/mooncake in rdmalink's sandbox. It is no part of CI: it needs the network, and some 20 minutes of a processor.
#
# PAIRINGS="count-go count-cxx" KINDS="mlx5 rxe" counts the instructions of the initiator with valgrind instead: see
# docs/mooncake.md. SECONDS_OF_CXX is how long the engine's runs.
#
# On Debian 12: apt-get install --no-install-recommends g++ cmake make git libgoogle-glog-dev libgflags-dev libjsoncpp-dev
# libnuma-dev libcurl4-openssl-dev libyaml-cpp-dev libboost-dev libibverbs-dev libasio-dev libssl-dev pkg-config pybind11-dev python3-dev
set -eu
dir=$(realpath -m "${1:?mooncake.sh DIR}")
root=$(cd "$(dirname "$0")/../.." && pwd)
mooncake=3b5a594133958449a1feaf1c9e0fc1b553e34a28
yalantinglibs=393e27e8d47e91536763024192eb86b845011ae5
kinds=${KINDS:-rxe mlx5 mlx5-ib erdma-roce}

fetch() { # fetch REPOSITORY COMMIT DIRECTORY
	test -e "$3" && return
	git init -q "$3.new"
	git -C "$3.new" fetch -q --depth 1 "https://github.com/$1" "$2"
	git -C "$3.new" checkout -q FETCH_HEAD
	mv "$3.new" "$3"
}

build() {
	mkdir -p "$dir"
	fetch kvcache-ai/Mooncake "$mooncake" "$dir/src"
	fetch alibaba/yalantinglibs "$yalantinglibs" "$dir/yalantinglibs"
	# The engine's build looks for Python in its own way, and needs headers of it and of pybind11.
	mkdir -p "$dir/src/extern/pybind11"
	for target in headers module embed; do
		echo "add_library(pybind11_$target INTERFACE)"
		echo "target_include_directories(pybind11_$target INTERFACE $(/usr/bin/python3-config --includes | sed 's/ .*//; s/^-I//'))"
		echo "add_library(pybind11::$target ALIAS pybind11_$target)"
	done >"$dir/src/extern/pybind11/CMakeLists.txt"
	cmake -S "$dir/yalantinglibs" -B "$dir/y" -DCMAKE_INSTALL_PREFIX="$dir/ylt" -DBUILD_EXAMPLES=OFF -DBUILD_BENCHMARK=OFF -DBUILD_UNIT_TESTS=OFF
	cmake --install "$dir/y"
	cmake -S "$dir/src/mooncake-transfer-engine" -B "$dir/b" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O2 -DNDEBUG" -DCMAKE_PREFIX_PATH="$dir/ylt" \
		-DUSE_CUDA=OFF -DUSE_ETCD=OFF -DWITH_METRICS=OFF -DUSE_TENT=OFF -DBUILD_UNIT_TESTS=OFF -DUSE_HTTP=ON
	nice -n 10 make -C "$dir/b" -j1 transfer_engine_bench transfer_engine_validator
}

bench=$dir/b/example/transfer_engine_bench
validator=$dir/b/example/transfer_engine_validator
test -x "$bench" && test -x "$validator" || build >"$dir.log" 2>&1 || { tail "$dir.log"; exit 1; }

export CGO_ENABLED=0
(cd "$root" && go build -o "$dir/rdmalink" ./cmd/rdmalink && go build -o "$dir/peer" ./test/interop/mooncake)

# The programs of one host. A target of the engine logs its address, which has a port of its own choice.
export MC_LOG_LEVEL=INFO GLOG_logtostderr=1 bench validator dir
cat >"$dir/pair.sh" <<'PAIR'
set -eu
device=$1 pairing=$2
flags="--metadata_server=P2PHANDSHAKE --protocol=rdma --device_name=$device --local_server_name=127.0.0.1 --buffer_size=67108864"
small="$flags --threads=1 --batch_size=16 --block_size=65536 --duration=2"
log=$dir/target.log
: >"$log"
count() { # count NAME COMMAND…
	valgrind --tool=callgrind --callgrind-out-file="$dir/count.$1" "${@:2}" >"$dir/count.$1.log" 2>&1
}
total() { sed -n 's/.*Collected : //p' "$dir/count.$1.log"; }
trap 'kill $! 2>/dev/null; wait 2>/dev/null' EXIT
case $pairing in
cxx-cxx | go-cxx | count-cxx) "$bench" --mode=target $flags >"$log" 2>&1 & ;;
*) "$dir/peer" -device "$device" -name 127.0.0.1:15001 serve >"$log" 2>&1 & ;;
esac
for _ in $(seq 300); do
	address=$(grep -oE '(127\.0\.0\.1):1[5-7][0-9]{3}' "$log" | head -1)
	test -z "$address" || break
	sleep 0.2
done
test -n "$address" || { cat "$log"; exit 1; }
case $pairing in
cxx-cxx | cxx-go)
	"$bench" --mode=initiator $small --segment_id="$address" --operation=read
	"$bench" --mode=initiator $small --segment_id="$address" --operation=write
	;;
validator-go) "$validator" --mode=initiator $small --segment_id="$address" ;;
count-go) # the difference of two runs; valgrind bears neither the signals of the Go runtime nor RDTSCP
	export GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off GOGC=off
	for batches in 2 22; do
		count "$device.go.$batches" "$dir/peer" -device "$device" -segment "$address" -batches $batches read
	done
	echo "$((($(total "$device.go.22") - $(total "$device.go.2")) / 1280)) instructions a READ"
	;;
count-cxx) # two of the functions; the threads that poll execute as many as there is time for
	count "$device.cxx" --fair-sched=yes "$bench" --mode=initiator $flags --threads=1 --batch_size=64 --block_size=65536 --duration="${SECONDS_OF_CXX:-60}" \
		--segment_id="$address" --operation=read
	reads=$((64 * $(grep -oE 'batch count [0-9]+' "$dir/count.$device.cxx.log" | cut -d' ' -f3)))
	callgrind_annotate --inclusive=yes --threshold=100 "$dir/count.$device.cxx" | tr -d , | awk -v reads=$reads '
		/ \/.*:mooncake::TransferEngine::submitTransfer\(/ && $1 > submit { submit = $1 } # with all that it calls; other lines are parts of it
		/ \/.*:mooncake::RdmaEndPoint::submitPostSend\(/ && $1 > post { post = $1 }
		/PROGRAM TOTALS/ { all = $1 }
		END { printf "%d instructions a READ to submit, %d to post, %d with all threads that poll\n", submit / reads, post / reads, all / reads }'
	;;
*) "$dir/peer" -device "$device" -segment "$address" check ;;
esac
PAIR

failed=0
for kind in $kinds; do
	case $kind in
	mlx5*) device=mlx5_0 ;;
	erdma*) device=erdma0 ;;
	*) device=${kind}0 ;;
	esac
	for pairing in ${PAIRINGS:-cxx-cxx go-cxx cxx-go validator-go go-go}; do
		if timeout 600 "$dir/rdmalink" sandbox -d "$kind" -- bash "$dir/pair.sh" "$device" "$pairing" >"$dir/$kind-$pairing.log" 2>&1 &&
			! grep -q 'data integrity problem' "$dir/$kind-$pairing.log"; then
			echo "ok      $kind $pairing $(grep -oE 'throughput [0-9.]+ [A-Za-z/]+|the bytes are equal|[0-9]+ instructions a READ.*' "$dir/$kind-$pairing.log" | tail -1)"
		else
			echo "FAILED  $kind $pairing: see $dir/$kind-$pairing.log"
			failed=1
		fi
	done
done
exit $failed
