#!/usr/bin/env bash
# gloo.sh DIR: builds gloo with its ibverbs transport in DIR, unless it is there, and runs its collectives between
# processes in rdmalink's sandbox. gloo itself compares the results of the first round with what they must be.
# It is no part of CI: it needs the network, and some ten minutes of a processor.
#
# On Debian 12: apt-get install --no-install-recommends g++ cmake make git libibverbs-dev
set -eu
dir=$(realpath -m "${1:?gloo.sh DIR}")
root=$(cd "$(dirname "$0")/../.." && pwd)
gloo=70dc360272dfc57e3617184c78ff9b06f8cd4757
kinds=${KINDS:-rxe mlx5 mlx5-ib}
benchmarks=${BENCHMARKS:-allreduce_ring allreduce_ring_chunked allreduce_halving_doubling allgather_ring broadcast_one_to_all barrier_all_to_all pairwise_exchange}

build() {
	mkdir -p "$dir"
	if ! test -e "$dir/src"; then
		git init -q "$dir/src.new"
		git -C "$dir/src.new" fetch -q --depth 1 "${GLOO:-https://github.com/pytorch/gloo}" "$gloo"
		git -C "$dir/src.new" checkout -q FETCH_HEAD
		mv "$dir/src.new" "$dir/src"
	fi
	cmake -S "$dir/src" -B "$dir/b" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DUSE_IBVERBS=ON -DBUILD_BENCHMARK=ON -DBUILD_TEST=OFF
	nice -n 10 make -C "$dir/b" -j2 benchmark
}

bench=$dir/b/gloo/benchmark/benchmark
test -x "$bench" || build >"$dir.log" 2>&1 || { tail "$dir.log"; exit 1; }

export CGO_ENABLED=0
(cd "$root" && go build -o "$dir/rdmalink" ./cmd/rdmalink)

# The processes of a run, which find each other by files.
export bench dir
cat >"$dir/run.sh" <<'RUN'
device=$1 index=$2 benchmark=$3 size=$4
rm -rf "$dir/meet"
mkdir "$dir/meet"
pids=
for rank in $(seq 0 $((size - 1))); do
	"$bench" --size="$size" --rank="$rank" --prefix=goverbs --shared-path="$dir/meet" --transport=ibverbs \
		--ib-device="$device" --ib-index="$index" --elements=20000 --warmup-iters=1 --iteration-count=20 "$benchmark" &
	pids="$pids $!"
done
code=0
for pid in $pids; do wait "$pid" || code=1; done
exit $code
RUN

failed=0
for kind in $kinds; do
	index=1
	case $kind in
	mlx5-ib) device=mlx5_0 index=0 ;;
	mlx5*) device=mlx5_0 ;;
	erdma*) device=erdma0 ;;
	*) device=${kind}0 ;;
	esac
	for benchmark in $benchmarks; do
		for size in ${SIZES:-2 4}; do
			log=$dir/$kind-$benchmark-$size.log
			# A process may abort at its end: between poll and ibv_get_cq_event another thread has destroyed the CQ.
			for _ in 1 2 3; do
				code=0
				timeout 120 "$dir/rdmalink" sandbox -d "$kind" -- bash "$dir/run.sh" "$device" "$index" "$benchmark" "$size" >"$log" 2>&1 || code=$?
				grep -q ibv_get_cq_event "$log" || break
			done
			if test $code = 0; then
				echo "ok      $kind $benchmark of $size"
			else
				echo "FAILED  $kind $benchmark of $size: see $log"
				failed=1
			fi
		done
	done
done
exit $failed
