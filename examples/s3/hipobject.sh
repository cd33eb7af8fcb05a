#!/bin/sh
# Moves objects between the server of this directory and a client in C++: the queue pairs, tokens and parsers of AMD's hipObject, which
# versitygw 1.8.0 has a copy of, with a main function that does the steps of hipObject's v2-client.cpp in its order and waits as that does. curl
# signs the requests. All run in `rdmalink sandbox`. It needs versitygw.sh to have run, g++, curl 7.88, and rdmalink in PATH.
#
#	hipobject.sh [KIND...]
set -eu
kinds=${*:-rxe mlx5 erdma-roce}
here=$(cd "$(dirname "$0")" && pwd)
work=${VERSITYGW:-${XDG_CACHE_HOME:-$HOME/.cache}/goverbs/versitygw-v1.8.0}
mkdir -p "$work/hipobject" && cd "$work/hipobject"
cat > client.cpp <<'END'
#include <arpa/inet.h>
#include <unistd.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include "rc_ibv_host.h"
#include "token.h"
#include "v2-random.h"
#include "v2-transport.h"
#include "v2-wire.h"
using namespace hipObj;
using namespace hipObj::v2;
using std::string;

static void need(bool ok, const char *what) {
	if (!ok) { std::cerr << "failed: " << what << std::endl; exit(1); }
}

static string url;

// post starts a request. Its answer is the status line and the header.
static FILE *post(const string &name, const string &headers) {
	string c = "curl -sS --max-time 60 -D - -o /dev/null -X POST --aws-sigv4 aws:amz:us-east-1:s3 --user \"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY\""
		" -H 'x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'" + headers + " '" + url + kControlPathPrefix + name + "'";
	return popen(c.c_str(), "r");
}

static string header(const string &name, const string &value) { return " -H '" + name + ": " + value + "'"; }

static string hex(uint64_t v) { std::ostringstream s; s << std::hex << v; return s.str(); }

// answer returns the status and the lines of the header.
static int answer(FILE *f, string &lines) {
	string all;
	char b[4096];
	for (size_t n; (n = fread(b, 1, sizeof b, f)) > 0;) all.append(b, n);
	need(pclose(f) == 0, "curl");
	size_t end = all.find("\r\n");
	need(end != string::npos, "an answer");
	lines = all.substr(end + 2);
	return atoi(all.c_str() + 9);
}

static string value(const string &lines, const char *want) {
	std::istringstream s(lines);
	for (string line, name, v; std::getline(s, line, '\n');)
		if (splitHeaderLine(line.substr(0, line.find('\r')), name, v) && strcasecmp(name.c_str(), want) == 0) return v;
	return "";
}

int main(int argc, char **argv) {
	need(argc == 6, "client PUT|GET URL BUCKET KEY FILE");
	const string op = argv[1];
	const bool put = op == "PUT";
	url = argv[2];
	string data;
	{ std::ifstream f(argv[5], std::ios::binary); data.assign(std::istreambuf_iterator<char>(f), {}); }
	uint64_t size = data.size();
	char *buf = (char *)calloc(1, size);
	if (put) memcpy(buf, data.data(), size);

	need(ibv.ensureLoaded(), "load libibverbs");
	int n = 0;
	ibv_device **list = ibv.get_device_list(&n);
	need(list && n > 0, "find a device");
	DeviceHandle dev;
	dev.gidIndex = atoi(getenv("GID"));
	need((dev.ctx = ibv.open_device(list[0])) && (dev.pd = ibv.alloc_pd(dev.ctx)), "open a device");
	need(ibv.query_gid(dev.ctx, 1, dev.gidIndex, &dev.localGid) == 0, "query the GID");
	ibv_mr *mr = ibv.reg_mr(dev.pd, buf, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	RcConnV2 conn;
	need(mr && createRcConnV2(&dev, conn) == 0 && transitionQpToInitV2(&dev, conn) == 0, "create a queue pair");
	uint32_t psn = 0, cookie = 0;
	need(nextClientPsn(psn) && nextCookie(cookie), "random numbers");
	RdmaToken own{};
	own.qpNum = conn.qpNum;
	memcpy(own.gid, &dev.localGid, 16);
	own.transport = TRANSPORT_RC;
	own.portNum = dev.portNum;

	string lines;
	int status = answer(post("prepare", header(kProtocolHeader, kProtocolValue) + header(kTokenHeader, encodeRdmaToken(own)) + header(kPsnHeader, formatPsn(psn)) +
		header(kCookieHeader, formatCookie(cookie)) + header(kOpHeader, op) + header(kTargetHeader, buildTarget(argv[3], argv[4], "")) +
		header(kSizeHeader, std::to_string(size)) + header(kOffsetHeader, "0")), lines);
	PrepareReply p;
	need(parsePrepareReply(status, lines, p) && p.httpStatus == 200 && p.protocolEcho, ("PREPARE: " + std::to_string(status) + "\n" + lines).c_str());
	RdmaToken peer{};
	need(decodeRdmaTokenHex(p.serverToken.c_str(), peer) && peer.transport == TRANSPORT_RC && peer.qpNum == strtoul(value(lines, "x-amz-rdma-qpn").c_str(), nullptr, 16), "the server's token");
	ibv_gid gid;
	memcpy(&gid, peer.gid, 16);
	need(transitionQpToRtrV2(&dev, conn, peer.qpNum, 0, gid, p.serverPsn) == 0 && transitionQpToRtsV2(conn, &dev, psn) == 0, "connect");
	ibv_sge sge{};
	sge.addr = (uintptr_t)buf;
	sge.length = size;
	sge.lkey = mr->lkey;
	if (!put) {
		ibv_recv_wr wr{}, *bad;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		need(ibv.post_recv(conn.qp, &wr, &bad) == 0, "post a receive");
	}
	FILE *pending = post("ready", header(kProtocolHeader, kProtocolValue) + header(kSessionHeader, p.session) + header(kCookieHeader, formatCookie(cookie)) +
		header("x-amz-rdma-qpn", hex(conn.qpNum)) + header("x-amz-rdma-mr-addr", hex((uintptr_t)buf)) + header("x-amz-rdma-mr-rkey", hex(mr->rkey)));
	if (put) {
		usleep(100000);
		ibv_send_wr wr{}, *bad;
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.imm_data = htonl(cookie);
		wr.wr.rdma.remote_addr = strtoull(value(lines, "x-amz-rdma-mr-addr").c_str(), nullptr, 16);
		wr.wr.rdma.rkey = strtoul(value(lines, "x-amz-rdma-mr-rkey").c_str(), nullptr, 16);
		wr.sg_list = &sge;
		wr.num_sge = 1;
		need(ibv.post_send(conn.qp, &wr, &bad) == 0, "post a write");
	}
	ibv_wc wc{};
	int got = 0;
	for (int i = 0; i < 60000 && (got = ibv.poll_cq(conn.cq, 1, &wc)) == 0; i++) usleep(1000);
	need(got == 1 && wc.status == IBV_WC_SUCCESS, "a completion");
	need(put ? wc.opcode == IBV_WC_RDMA_WRITE : wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc.wc_flags & IBV_WC_WITH_IMM) && ntohl(wc.imm_data) == cookie, "the right completion");
	status = answer(pending, lines);
	FinalReply f;
	need(parseFinalReply(status, lines, f) && (status == 200 || put && status == 204) && f.protocolEcho && f.cookiePresent && f.cookieEcho == cookie && f.bytes == size,
		("READY: " + std::to_string(status) + "\n" + lines).c_str());
	need(put || memcmp(buf, data.data(), size) == 0, "the same data");
	bool a, b;
	destroyRcConnV2(conn, &a, &b);
	need(a && b && ibv.dereg_mr(mr) == 0 && ibv.dealloc_pd(dev.pd) == 0 && ibv.close_device(dev.ctx) == 0, "clean up");
	std::cout << op << " " << f.bytes << " bytes, " << f.etag << std::endl;
}
END
rc=$work/src/cuwrapper/rc
g++ -std=c++17 -I"$rc" -o client client.cpp "$work/src/rdma/librcserver.a" -libverbs -ldl -lpthread
CGO_ENABLED=0 go -C "$here" build -o "$work/hipobject/s3" .
export AWS_ACCESS_KEY_ID=me AWS_SECRET_ACCESS_KEY=secret
for kind in $kinds; do
	device=${kind%-*}0
	test "$kind" != mlx5 || device=mlx5_0
	rm -rf objects && mkdir objects
	for size in 1 65536 1048577 67108864; do
		echo "$kind:"
		head -c $size /dev/urandom > in
		device=$device GID=1 rdmalink sandbox --device "$kind" -- sh -c '
			./s3 -dev $device -any-peer -listen 127.0.0.1:7080 -dir objects >log 2>&1 &
			server=$!
			until curl -s http://127.0.0.1:7080/ >/dev/null; do sleep 0.2; done
			./client PUT http://127.0.0.1:7080 bucket key in && cmp in objects/bucket/key && ./client GET http://127.0.0.1:7080 bucket key in
			status=$?
			kill $server
			wait $server
			exit $status' || { cat log; exit 1; }
	done
done
rm -rf objects in log
echo "all equal"
