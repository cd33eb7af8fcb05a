#!/bin/sh
# Moves objects between the client of this directory, and the SDKs of examples/s3sdk, and versitygw 1.8.0, a server of others whose RDMA part is C++. Both run in
# `rdmalink sandbox`. It builds versitygw from the Go module proxy, which takes minutes the first time.
# It needs g++, libibverbs-dev, and rdmalink in PATH.
#
#	versitygw.sh [KIND...]
#
# versitygw links a library of NVIDIA for cuObject's protocol, which is not public. A stand-in takes its place, which moves the data through DC initiators of
# libmlx5. So on mlx5 this script moves objects with that protocol too. As released, versitygw looks up three verbs that are inline functions in C: those get functions.
# It also passes Go pointers to C in a way that Go's check refuses, hence GODEBUG.
set -eu
version=v1.8.0
kinds=${*:-rxe mlx5 erdma-roce}
here=$(cd "$(dirname "$0")" && pwd)
work=${VERSITYGW:-${XDG_CACHE_HOME:-$HOME/.cache}/goverbs/versitygw-$version}
mkdir -p "$work"
if [ ! -x "$work/vgwrdma" ]; then
	module=$(go mod download -json github.com/versity/versitygw@$version | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	rm -rf "$work/src" && cp -r "$module" "$work/src" && chmod -R u+w "$work/src"
	mkdir -p "$work/stand-in"
	cat > "$work/stand-in/cuobjserver.h" <<'END'
#pragma once
#include <infiniband/verbs.h>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <string>
#include <sys/types.h>
enum cuObjDelayMode_t { cuObjDelayNone };
struct rdma_buffer;
struct cuObjRDMATunable {
	void setNumDcis(unsigned) {}
	void setCqDepth(unsigned) {}
	void setDcKey(unsigned long) {}
	void setServiceLevel(unsigned) {}
	void setTimeout(unsigned) {}
	void setHopLimit(unsigned) {}
	void setPkeyIndex(unsigned) {}
	void setDelayInterval(unsigned) {}
	void setDelayMode(cuObjDelayMode_t) {}
	void setRetryCount(unsigned) {}
	void setQPResetOnFailure(bool) {}
	void setTrafficClass(unsigned) {}
	void setMaxRdAtomic(unsigned) {}
};
struct cuObjServer {
	struct ibv_context *context = nullptr;
	struct ibv_pd *pd = nullptr;
	void open();
	template <class... A> cuObjServer(A...) { open(); }
	bool isConnected() { return pd; }
	void *allocHostBuffer(size_t n) { return aligned_alloc(4096, n); }
	rdma_buffer *registerBuffer(void *p, size_t n) { return (rdma_buffer *)ibv_reg_mr(pd, p, n, IBV_ACCESS_LOCAL_WRITE); }
	void deRegisterBuffer(rdma_buffer *b) { ibv_dereg_mr((ibv_mr *)b); }
	uint16_t allocateChannelId() { return 0; }
	void freeChannelId(uint16_t) {}
	ssize_t move(bool read, ibv_mr *mr, uint64_t remote, size_t n, const char *token);
	template <class B, class... A> ssize_t handleGetObject(std::string &, B b, uint64_t remote, size_t n, std::string &token, A...) {
		return move(false, (ibv_mr *)b, remote, n, token.c_str());
	}
	template <class B, class... A> ssize_t handlePutObject(std::string &, B b, uint64_t remote, size_t n, std::string &token, A...) {
		return move(true, (ibv_mr *)b, remote, n, token.c_str());
	}
	template <class... A> static void setupTelemetry(A...) {}
	static void shutdownTelemetry() {}
	static void setTelemFlags(unsigned) {}
	void initRDMAConfigParams(cuObjRDMATunable) {}
};
END
	cat > "$work/stand-in/cuobjserver.cpp" <<'END'
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "cuobjserver.h"
#include <infiniband/mlx5dv.h>

void cuObjServer::open() {
	int n = 0;
	ibv_device **list = ibv_get_device_list(&n);
	if (!list || !n || !mlx5dv_is_supported(list[0]) || !(context = ibv_open_device(list[0])) || !(pd = ibv_alloc_pd(context)))
		throw std::runtime_error("no mlx5 device");
}

ssize_t cuObjServer::move(bool read, ibv_mr *mr, uint64_t remote, size_t n, const char *token) {
	unsigned rkey, dctn, byte;
	if (strlen(token) < 81 || sscanf(token + 26, "%8x", &rkey) != 1 || sscanf(token + 40, "%6x", &dctn) != 1) return -1;
	ibv_ah_attr av{};
	for (int i = 0; i < 16; i++) {
		if (sscanf(token + 49 + 2 * i, "%2x", &byte) != 1) return -1;
		av.grh.dgid.raw[i] = byte;
	}
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	bool v4 = !memcmp(av.grh.dgid.raw, mapped, 12);
	ibv_gid gid;
	for (int i = 0; ibv_query_gid(context, 1, i, &gid) == 0; i++) {
		av.grh.sgid_index = i;
		if (gid.raw[0] != 0xfe && v4 == !memcmp(gid.raw, mapped, 12)) break;
	}
	av.grh.hop_limit = 4;
	av.is_global = av.port_num = 1;
	ssize_t done = -1;
	ibv_cq *cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
	ibv_ah *ah = ibv_create_ah(pd, &av);
	ibv_qp_init_attr_ex init{};
	init.send_cq = init.recv_cq = cq;
	init.qp_type = IBV_QPT_DRIVER;
	init.cap.max_send_wr = init.cap.max_send_sge = 1;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.pd = pd;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE;
	mlx5dv_qp_init_attr dc{};
	dc.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
	dc.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
	ibv_qp *qp = cq && ah ? mlx5dv_create_qp(context, &init, &dc) : nullptr;
	ibv_port_attr port;
	ibv_qp_attr a{};
	if (qp && ibv_query_port(context, 1, &port) == 0) {
		a.qp_state = IBV_QPS_INIT;
		a.port_num = 1;
		int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = port.active_mtu;
		if (!err) err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU);
		a.qp_state = IBV_QPS_RTS;
		a.timeout = 16;
		a.retry_cnt = a.rnr_retry = 7;
		a.max_rd_atomic = 1;
		if (!err) err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
		ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
		if (!err) {
			ibv_wr_start(x);
			x->wr_flags = IBV_SEND_SIGNALED;
			if (read) ibv_wr_rdma_read(x, rkey, remote);
			else ibv_wr_rdma_write(x, rkey, remote);
			mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(x), ah, dctn, 0xffeeddcc);
			ibv_wr_set_sge(x, mr->lkey, (uintptr_t)mr->addr, n);
			err = ibv_wr_complete(x);
		}
		ibv_wc wc{};
		int got = 0;
		while (!err && (got = ibv_poll_cq(cq, 1, &wc)) == 0) {}
		if (got == 1 && wc.status == IBV_WC_SUCCESS) done = n;
		else fprintf(stderr, "stand-in: error %d, status %d\n", err, wc.status);
	} else perror("stand-in");
	if (qp) ibv_destroy_qp(qp);
	if (ah) ibv_destroy_ah(ah);
	if (cq) ibv_destroy_cq(cq);
	return done;
}
END
	g++ -std=c++17 -shared -fPIC -I"$work/stand-in" -o "$work/stand-in/libcuobjserver.so" "$work/stand-in/cuobjserver.cpp" -lmlx5 -libverbs
	cd "$work/src"
	cat > cuwrapper/rc/inline.cpp <<'END'
#include <infiniband/verbs.h>
extern "C" int inline_poll_cq(ibv_cq *q, int n, ibv_wc *w) { return ibv_poll_cq(q, n, w); }
extern "C" int inline_post_recv(ibv_qp *q, ibv_recv_wr *w, ibv_recv_wr **b) { return ibv_post_recv(q, w, b); }
extern "C" int inline_post_send(ibv_qp *q, ibv_send_wr *w, ibv_send_wr **b) { return ibv_post_send(q, w, b); }
END
	sed -i -e '1i extern "C" { void inline_poll_cq(); void inline_post_recv(); void inline_post_send(); }' \
		-e 's/load("ibv_\(poll_cq\|post_recv\|post_send\)")/(void *)inline_\1/' cuwrapper/rc/rc_ibv_host.cpp
	make rdma/libcuobjwrapper.a rdma/librcserver.a CUOBJ_SERVER_INC_DIR="$work/stand-in"
	CGO_ENABLED=1 CGO_CFLAGS="-I$work/stand-in" CGO_LDFLAGS="-L$work/stand-in -Wl,-rpath,$work/stand-in -libverbs" \
		go build -buildvcs=false -o "$work/vgwrdma" ./cmd/vgwrdma
fi
export PATH="$work:$PATH" GODEBUG=cgocheck=0
export AWS_ACCESS_KEY_ID=me AWS_SECRET_ACCESS_KEY=secret ROOT_ACCESS_KEY=me ROOT_SECRET_KEY=secret
export CGO_ENABLED=0
cd "$here" && go build -o "$work/s3" . && go -C ../s3sdk build -o "$work/s3sdk" .
cd "$work" && rm -rf run && mkdir run && cd run
for kind in $kinds; do
	device=${kind%-*}0
	test "$kind" != mlx5 || device=mlx5_0
	mkdir -p "$kind/objects/bucket" "$kind/iam" && cd "$kind"
	for size in 65536 1048577 67108864; do
		head -c $size /dev/urandom > in
		echo "$kind, $size bytes:"
		size=$size device=$device rdmalink sandbox --device "$kind" -- sh -c '
			vgwrdma --port 127.0.0.1:7070 --health /health --rdma-rc-enable posix "$PWD/objects" >log 2>&1 &
			server=$!
			until curl -sf http://127.0.0.1:7070/health >/dev/null; do sleep 0.2; done
			s3 -dev $device cp in http://127.0.0.1:7070/bucket/key && cmp in objects/bucket/key &&
			s3 -dev $device cp http://127.0.0.1:7070/bucket/key out && cmp in out &&
			s3 cp http://127.0.0.1:7070/bucket/key plain && cmp in plain && {
				test $size != 1048577 || for sdk in aws minio; do
					echo "$sdk:"
					sdk="s3sdk -dev $device -url http://127.0.0.1:7070 -sdk $sdk"
					rm objects/bucket/key out
					$sdk put bucket/key in && cmp in objects/bucket/key || exit 1
					case $sdk in *aws) $sdk get bucket/key out && cmp in out || exit 1; esac
				done
			}
			status=$?
			kill $server
			exit $status' || { tail -20 log; exit 1; }
		rm -f in out plain
	done
	cd ..
done
case $kinds in *mlx5*)
	mkdir -p cuobject/objects/bucket && cd cuobject
	for size in 1 65536 1048577 67108864; do
		head -c $size /dev/urandom > in
		echo "cuObject's protocol, mlx5, $size bytes:"
		rdmalink sandbox --device mlx5 -- sh -c '
			vgwrdma --port 127.0.0.1:7070 --health /health --rdma-ip 127.0.0.1 --pool-buf-size 16777216 --pool-buf-count 2 posix "$PWD/objects" >log 2>&1 &
			server=$!
			until curl -sf http://127.0.0.1:7070/health >/dev/null; do sleep 0.2; done
			s3="s3 -dev mlx5_0 -dc-key 0xffeeddcc"
			rm -f out
			$s3 cp in http://127.0.0.1:7070/bucket/key && cmp in objects/bucket/key && $s3 cp http://127.0.0.1:7070/bucket/key out && cmp in out
			status=$?
			kill $server
			exit $status' || { tail -20 log; exit 1; }
		rm -f in out
	done
esac
echo "all equal"
