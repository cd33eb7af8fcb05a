# Everything that runs here needs Linux on amd64, Go, and for the kernel tests
# Debian 12's apt with root or sudo; those install what is missing by themselves.

GO ?= go
FUZZTIME ?= 10s
# Added to every go test, for instance TESTFLAGS='-v -run Dial'.
TESTFLAGS ?=
# Kernel series to test on, the packages with kernel tests, and how many guests share
# the tests on each kernel.
KERNELS ?= 6.12 6.1 7.3
VM_ALL := $(patsubst %/main_test.go,./%,$(wildcard test/*/main_test.go))
VM_PACKAGES ?= $(VM_ALL)
# The packages whose kernel tests take longest, most of the time in programs of C: make test leaves
# them to make test-all.
VM_LONG := ./test/perf ./test/questions ./test/stream
VM_SHORT := $(filter-out $(VM_LONG),$(VM_ALL))
GUESTS ?= 2
# Options of make bench, and of make mutate.
BENCH ?=
MUTATE ?=
# Rows of make test and make stress, all if empty; how long make stress runs them, beside
# how many busy loops, and where it adds its results up.
ROWS ?=
FOR ?= 30m
HOGS ?= 2
LOG ?= stress.jsonl
# What a row needs first. make test and make test-all see to it once, for all of their rows.
READY ?= fetch build grpc valkey exporter prometheus bin/questions
# What single rows install besides. That happens before the first row: guests run the
# programs of packages, which nobody should replace meanwhile.
INSTALL_arm64 = qemu-user
INSTALL_sandbox = programs diags
INSTALL_peers = programs rdma-core others
INSTALL_fabric = diags
INSTALL_exporter-test = systemd
INSTALL_abi = cross
INSTALL = $(foreach row,$(or $(ROWS),sandbox exporter-test),$(INSTALL_$(row)))
INSTALL_RELEASE = $(foreach row,peers arm64 fabric abi,$(INSTALL_$(row)))
# Tests of the sandbox that run the programs of others at length, or those of the newest rdma-core.
PEERS ?= ^TestPeer|^TestOthers|OnCores$$/^newest$$
# What make race tests. The library is where goroutines share objects: make test takes that, and
# make test-all the rest.
RACE ?= ./...
RACE_LIBRARY := ./mmap ./verbs/... ./uverbs/... ./netlinkrdma/... ./provider/... ./rdmacm/... ./oob/... ./rsocket/... ./valkeyrdma/... ./msg/... ./transfer/... ./s3rdma/... ./redial/... ./rdmatest/... ./internal/...
RACE_REST = $(filter-out $(shell $(GO) list $(RACE_LIBRARY)),$(shell $(GO) list ./...))
# Kernel tests with many goroutines on one object, and their packages.
RACE_PACKAGES ?= ./test/rxe ./test/msg
RACE_TESTS ?= TestRxeManyPosters|TestRxeClosedUnderUse|TestRxeMsgPool|TestListenerClosedUnderDials

# Linters are in a go.mod of their own: they need a newer Go than users of the module.
TOOL = $(GO) tool -modfile=tools.mod
SUDO = $(if $(filter 0,$(shell id -u)),,sudo)

# Nothing of ours uses cgo; only the race detector asks for it.
export CGO_ENABLED = 0
# A clone that belongs to somebody else, as in a CI container, would stop go build.
# Without paths, one clone's build cache serves the next.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath

.DEFAULT_GOAL := help
.PHONY: help release api surface build grpc exporter exporter-test prometheus others generate lint platforms unit arm64 race fuzz abi sandbox peers fabric programs diags rdma-core qemu-user systemd cross fetch valkey vm vmlong vmrace rig uml mutate questions test test-all stress demo clean bench bench-check

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the static bin/rdmalink, the programs of tests, and the examples
	$(GO) build -o bin/ ./cmd/rdmalink ./test/cmd/cmtest ./test/cmd/exchange ./test/cmd/vm
	$(GO) build -o bin/ ./examples/... ./docs/concepts

# A module of its own: nothing else needs what gRPC does.
grpc: ## build bin/grpc, the example that needs gRPC
	$(GO) -C examples/grpc build -o ../../bin/grpc/ ./...

# The server is built once and cached. The clients are of a module of their own, as gRPC's are.
valkey: bin/vm ## build bin/valkey: Valkey with RDMA from Debian's source, and Go clients of it
	@bin/vm valkey bin/valkey
	$(GO) -C examples/valkey build -o ../../bin/valkey/ ./...

# A module of its own too: rdmalink does without Prometheus's libraries. Its go.work has it built with
# the library of this directory; its go.mod has no replace, which go install MODULE@VERSION would refuse.
exporter: ## build the static bin/rdmalink-exporter, which rdmalink exporter runs
	$(GO) -C cmd/rdmalink-exporter build -o ../../bin/ .

# The packages are unpacked, not installed: their services would start.
PROMETHEUS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/goverbs/prometheus
$(PROMETHEUS)/usr/bin/promtool:
	mkdir -p $(PROMETHEUS)
	cd $(PROMETHEUS) && apt-get download prometheus prometheus-node-exporter && for f in *.deb; do dpkg-deb -x $$f .; done

prometheus: $(PROMETHEUS)/usr/bin/promtool ## get promtool and prometheus-node-exporter with apt

# Programs of others, with the libraries that Debian 12 lacks without them. UCX and Open MPI load
# whatever is installed, so these are unpacked only, as Prometheus is.
OTHERS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/goverbs/others
$(OTHERS)/complete:
	rm -rf $(OTHERS) && mkdir -p $(OTHERS)
	cd $(OTHERS) && apt-get download $$(apt-get install -s -y --no-install-recommends fio qperf ucx-utils libfabric-bin openmpi-bin netpipe-openmpi | \
		sed -n 's/^Inst \([^ ]*\).*/\1/p') && for f in *.deb; do dpkg-deb -x $$f . || exit 1; done && rm *.deb
	for f in $(OTHERS)/usr/lib/libpsm1/*.so.1.*; do ln -sf $$(basename $$f) $${f%.so.*}.so.1; done
	touch $@

others: $(OTHERS)/complete ## get fio, qperf, UCX, libfabric and Open MPI with apt

exporter-test: exporter prometheus systemd ## tests of rdmalink-exporter and of metrics of examples, with promtool and systemd-analyze
	$(GO) -C cmd/rdmalink-exporter vet ./...
	CI=true PATH="$(PROMETHEUS)/usr/bin:$$PATH" $(GO) -C cmd/rdmalink-exporter test -timeout 10m $(TESTFLAGS) ./...
	$(GO) -C cmd/rdmalink-exporter/deploy test -timeout 10m $(TESTFLAGS) ./...
	PATH="$(PROMETHEUS)/usr/bin:$$PATH" $(GO) test -timeout 10m $(TESTFLAGS) -run TestMetrics ./examples/web

# -ldflags=-buildid= makes the bytes depend on the sources, Go and the platform alone.
# The exporter is a module of its own, so each program is built in its directory.
RELEASE = $(GO) -C cmd/$$program build -ldflags=-buildid= -o
release: prometheus ## static rdmalink and rdmalink-exporter for amd64 and arm64 in dist/, built twice and compared, with checksums, man page and dashboard
	rm -rf dist && mkdir dist
	@set -e; export GOOS=linux; for program in rdmalink rdmalink-exporter; do for arch in amd64 arm64; do \
		export GOARCH=$$arch; \
		$(RELEASE) $$PWD/dist/$$program-linux-$$arch .; \
		GOCACHE=$$PWD/dist/cache $(RELEASE) $$PWD/dist/again .; \
		cmp dist/$$program-linux-$$arch dist/again || { echo "$$program for $$arch is not reproducible"; exit 1; }; \
	done; done
	rm -rf dist/again dist/cache
	$(GO) run ./cmd/rdmalink man > dist/rdmalink.8
	PATH="$(PROMETHEUS)/usr/bin:$$PATH" $(GO) -C cmd/rdmalink-exporter test -run '^TestPicture$$' -count 1 -picture $$PWD/dist/exporter-dashboard.svg .
	cd dist && sha256sum rdmalink* | tee SHA256SUMS

api: ## record the exported surface in internal/house/api.txt; make lint fails when it changes
	$(GO) test ./internal/house -run '^(TestAPI|TestArchitecture)$$' -api

# The exporter's tags begin with its directory, the library's with v.
BASE ?= $(shell git describe --tags --match 'v*' --abbrev=0 2>/dev/null)
surface: ## fail if the exported surface is incompatible with that of BASE, the last tag
	@test -n "$(BASE)" || echo "no tag yet: nothing to compare with"
	@test -z "$(BASE)" || { old=$$(mktemp -d) && trap 'git worktree remove --force '$$old'/tree; rm -rf '$$old EXIT && \
		git worktree add -q --detach $$old/tree "$(BASE)" && $(GO) build -modfile=tools.mod -o $$old/apidiff golang.org/x/exp/cmd/apidiff && \
		(cd $$old/tree && $$old/apidiff -m -w $$old/export github.com/goverbs/goverbs) && \
		$$old/apidiff -m -incompatible $$old/export github.com/goverbs/goverbs >$$old/diff && \
		awk -f internal/house/surface.awk $$old/tree/internal/house/api.txt $$old/diff || { echo "incompatible with $(BASE)"; exit 1; }; }

generate: cross ## generate internal/abi again from the kernel's headers
	$(GO) generate ./...

# vet type-checks every file, tests among them. One file has the tag !vm.
lint: ## gofmt, go vet, staticcheck, actionlint, no cgo
	@out=$$(gofmt -l .); test -z "$$out" || { echo "run gofmt -w on:"; echo "$$out"; exit 1; }
	$(GO) vet -tags vm,vmhost ./...
	$(GO) vet ./test
	$(GO) -C examples/grpc vet ./...
	$(GO) -C examples/valkey vet ./...
	$(GO) -C examples/s3sdk vet ./...
	$(GO) -C cmd/rdmalink-exporter vet ./...
	$(GO) -C cmd/rdmalink-exporter/deploy vet ./...
	$(GO) test ./internal/house -run '^TestAPI'
	$(TOOL) staticcheck -tags vm,vmhost ./...
	$(TOOL) actionlint
	@out=$$(CGO_ENABLED=1 $(GO) list -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' ./... && \
		$(GO) list -deps -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' ./...); \
		test -z "$$out" || { echo "these use cgo:"; echo "$$out"; exit 1; }

# Packages that compute with what peers send: an int of 32 bits must do.
BITS32 := ./rsocket ./valkeyrdma

# What only vet for another system adds is that all compiles, and for arm64 that the assembly fits:
# so one analyzer is enough, which spares the others' facts about all that is imported. Linking
# the tests of msg, which import the whole library, shows that no system lacks a function in assembly.
# 386 programs run in a guest, because not every kernel of 64 bits runs them.
platforms: $(READY) ## all compiles for arm64, macOS and Windows; tests of rsocket and valkeyrdma as 386 programs
	GOARCH=arm64 $(GO) vet -asmdecl ./...
	for os in darwin windows; do GOOS=$$os $(GO) vet -tests ./... && GOOS=$$os $(GO) test -c -vet=off -o /dev/null ./msg || exit 1; done
	if [ "$$($(GO) env GOHOSTARCH)" = amd64 ]; then CI= GOARCH=386 $(GO) test -short -timeout 15m \
		-exec '$(CURDIR)/bin/vm run -kernel $(firstword $(KERNELS)) -timeout 15m --' $(TESTFLAGS) $(BITS32); fi

# Without CI, tests that lack a C compiler, the kernel's headers, iproute2 or a
# shell are skipped here; the target abi runs those, and lets none be skipped.
unit: ## tests and fuzz seeds that need no kernel, no root and no network
	CI= $(GO) test -timeout 15m $(TESTFLAGS) ./...

# The emulator has the host's kernel below it. -short leaves out what takes minutes there: most
# mutations of providers and the long models. The target platforms vets for arm64.
arm64: qemu-user ## unit tests of the library as arm64 programs, under qemu-user
	CI= GOARCH=arm64 GOVERBS_QEMU_USER=1 $(GO) test -exec qemu-aarch64-static -short -vet=off -timeout 20m $(TESTFLAGS) \
		./mmap ./uverbs/... ./provider/... ./rdmatest ./rdmacm ./rsocket ./valkeyrdma ./msg ./internal/wait

# The race detector brings the checks of pointer conversions, -d=checkptr, along. What -short
# leaves out or shortens is for one goroutine, or too slow with it. Lint vets.
race: $(READY) ## the same under the race detector, and with pointer checks
	CI= CGO_ENABLED=1 $(GO) test -race -short -vet=off -timeout 20m $(TESTFLAGS) $(RACE)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
		for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
			echo "fuzz $$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; \
		done; \
	done

# unit and race ran the other tests of cmd/rdmalink. Results are cached: what programs, compilers
# or headers from outside the module an upgrade changed, go test doesn't notice (go clean -testcache).
abi: cross ## every kernel struct as C compilers lay it out; rdmalink beside two rdmas and in shells
	CI=true $(GO) test -skip Next $(TESTFLAGS) ./internal/abi ./internal/verbtable
	CI=true $(GO) test $(TESTFLAGS) -run 'AsIproute2|TestShells' ./cmd/rdmalink ./cmd/rdmalink/internal/rdma
	CI=true PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/goverbs/bookworm-backports:$$PATH" \
		$(GO) test $(TESTFLAGS) -run AsIproute2 ./cmd/rdmalink/internal/rdma

sandbox: programs diags $(filter valkey,$(READY)) ## C's programs and ours on devices in software: rdmalink sandbox
	CI=true $(GO) test -parallel 4 -timeout 30m $(TESTFLAGS) -skip '$(PEERS)' ./cmd/rdmalink/internal/sandbox
	$(GO) build -o bin/sandbox/ ./cmd/rdmalink
	PATH="$(CURDIR)/bin/sandbox:$$PATH" $(GO) test -timeout 30m $(TESTFLAGS) -run Sandbox ./examples/kv ./examples/read ./docs/concepts
	$(GO) -C examples/s3sdk test -timeout 10m $(TESTFLAGS) ./...
	CI=true PATH="$(CURDIR)/bin/sandbox:$(CURDIR)/bin/valkey:$$PATH" $(GO) test -timeout 30m $(TESTFLAGS) -run Sandbox ./valkeyrdma

peers: programs rdma-core others ## the tests of rdma-core, Debian's and the newest, and other people's programs in rdmalink sandbox
	CI=true $(GO) test $(TESTFLAGS) -run Next ./internal/abi ./internal/verbtable
	CI=true $(GO) test -parallel 4 -timeout 30m $(TESTFLAGS) -run '$(PEERS)' ./cmd/rdmalink/internal/sandbox

fabric: diags ## C's InfiniBand tools and opensm beside ours, on the simulator ibsim
	CI=true $(GO) test -timeout 20m $(TESTFLAGS) ./ib/umad ./ib/fabric ./ib/madtest ./cmd/rdmalink/internal/fabriccmd

rdma-core: bin/vm
	@bin/vm rdma-core

qemu-user:
	@command -v qemu-aarch64-static >/dev/null || { \
		echo "installing qemu-user-static"; \
		$(SUDO) apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends qemu-user-static; }

systemd:
	@command -v systemd-analyze >/dev/null || { \
		echo "installing systemd"; \
		$(SUDO) apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends systemd; }

# dpkg of some containers leaves out documentation, where ibsim's topologies are.
diags:
	@{ command -v ibsim && command -v opensm && command -v ibnetdiscover && ls /usr/share/doc/ibsim-utils/net-examples && \
		ls /usr/lib/*/umad2sim/libumad2sim.so; } >/dev/null 2>&1 || { \
		echo "installing ibsim, opensm and infiniband-diags"; \
		$(SUDO) apt-get -o DPkg::Lock::Timeout=300 -o DPkg::Options::='--path-include=/usr/share/doc/ibsim-utils/*' \
			install -y -q --no-install-recommends --reinstall ibsim-utils libumad2sim0 opensm infiniband-diags; }

# dpkg of some containers leaves out documentation, where rdma-core's tests are.
programs:
	@{ command -v ibv_rc_pingpong && command -v rping && command -v ib_send_bw && command -v gcc && \
		ls /usr/include/rdma/rdma_cma.h /usr/include/infiniband/verbs.h /usr/share/doc/rdma-core/tests/run_tests.py; } >/dev/null 2>&1 || { \
		echo "installing rdma-core's programs, headers and tests, perftest and a C compiler"; \
		$(SUDO) apt-get -o DPkg::Lock::Timeout=300 -o DPkg::Options::='--path-include=/usr/share/doc/rdma-core/*' \
			install -y -q --no-install-recommends --reinstall ibverbs-utils rdmacm-utils perftest \
			libibverbs-dev librdmacm-dev python3-pyverbs gcc libc6-dev; }

cross: $(READY)
	@command -v aarch64-linux-gnu-gcc >/dev/null || { \
		echo "installing the arm64 cross compiler"; \
		$(SUDO) apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross; }
	@bin/vm headers
	@$(GO) run ./internal/abi/gen -fetch

bin/vm: FORCE
	@$(GO) build -o bin/vm ./test/cmd/vm
FORCE:

fetch: bin/vm ## get KERNELS, siw, QEMU and rdma-core's tools with apt
	@bin/vm fetch -kernel "$(KERNELS)"

vm: $(READY) ## kernel tests, on KERNELS (6.12 6.1 7.3 in QEMU)
	@set -e; for k in $(KERNELS); do bin/vm test -kernel $$k -guests $(GUESTS) $(TESTFLAGS) $(VM_PACKAGES); done

bin/questions: $(wildcard test/questions/program/*.[ch]) | programs
	@mkdir -p bin
	gcc -O1 -Wall -Wno-unused-result -o $@ $(filter %.c,$^) -lrdmacm -libverbs

# The kinds of device that a kernel has, and those in software.
MACHINES ?= $(foreach k,$(KERNELS),rxe-$(k)) $(foreach k,$(filter 6%,$(KERNELS)),siw-$(k)) rxe-model siw-model erdma-model mlx5-model
questions: fetch build bin/questions ## ask MACHINES (rxe-6.12, siw-model ...) the questions of test/questions, and write their answers into its table
	@set -e; for m in $(MACHINES); do kind=$${m%%-*}; echo "asking $$m"; { echo "== $$m"; case $$m in \
		mlx5-model) bin/rdmalink sandbox -d mlx5 -- bin/questions mlx5_0 198.51.100.1 || true;; \
		*-model) bin/rdmalink sandbox -d $$kind -- bin/questions $${kind}0 198.51.100.1 || true;; \
		*) bin/vm run -kernel $${m#*-} -- sh test/questions/ask.sh $$kind;; esac; } > bin/answers; \
		$(GO) run ./test/questions/record < bin/answers; done

vmlong: $(READY) ## the kernel tests that take longest, on one kernel
	@bin/vm test -kernel $(firstword $(KERNELS)) -guests $(GUESTS) $(TESTFLAGS) $(VM_LONG)

vmrace: $(READY) ## RACE_TESTS under the race detector, and with pointer checks, on one kernel
	@bin/vm test -kernel $(firstword $(KERNELS)) -guests 1 -race -run '$(RACE_TESTS)' $(TESTFLAGS) $(RACE_PACKAGES)

rig: $(READY) ## test the test machine itself: output, exit code, crash, hang, cancel
	$(GO) test -tags vmhost -timeout 30m $(TESTFLAGS) -skip '^TestUML' ./test/cmd/vm

# User Mode Linux measures nanoseconds for make bench. Its tests and the kernel tests on it
# take a quarter of an hour, and show no more than QEMU's.
uml: ## the test machine's and the kernel tests on User Mode Linux, which is compiled first
	@$(MAKE) --no-print-directory fetch build grpc valkey exporter prometheus KERNELS=uml-6.12
	$(GO) test -tags vmhost -timeout 30m $(TESTFLAGS) -run '^TestUML' ./test/cmd/vm
	@bin/vm test -kernel uml-6.12 -guests $(GUESTS) $(TESTFLAGS) $(VM_PACKAGES)

# MUTATE='-own -run drain uverbs': go run ./test/cmd/mutate -h tells more.
mutate: ## change the source as the patches of test/cmd/mutate say; nine in ten have to fail a unit test
	nice -n 10 $(GO) run ./test/cmd/mutate $(MUTATE)

# BENCH='-quick', '-suites calls,perf -runs 3': go run ./test/bench -h tells more.
bench: ## measure beside rdma-core, perftest and cgo; writes docs/performance.md
	$(GO) run ./test/bench $(BENCH)

bench-check: $(READY) ## run the benchmark briefly; allocations, doorbells, instructions may not grow
	$(GO) run ./test/bench -check

test: KERNELS = $(or $(patsubst vm-%,%,$(filter vm-%,$(ROWS))),6.12)
test: $(READY) $(INSTALL) bin/suite ## what a change needs: unit, lint, sandbox, Linux 6.12, race for the library; ROWS names others
	@bin/suite $(if $(TESTFLAGS),-flags '$(TESTFLAGS)') $(ROWS)

# The first make test-all fetches kernels that make test left out: hence a make of its own.
test-all: test ## make test, then what a release needs: other kernels and platforms, foreign programs, layouts, benchmark
	@$(MAKE) --no-print-directory $(READY) $(INSTALL_RELEASE)
	@bin/suite -release $(if $(TESTFLAGS),-flags '$(TESTFLAGS)')

stress: $(READY) $(INSTALL) bin/suite ## ROWS of make test for FOR (30m), shuffled, beside HOGS busy loops; adds up in LOG
	@bin/suite -for $(FOR) -file $(LOG) -hogs $(HOGS) -shuffle $(if $(TESTFLAGS),-flags '$(TESTFLAGS)') $(ROWS)

bin/suite: FORCE
	@$(GO) build -o bin/suite ./test/cmd/suite

demo: ## a Go server and client move data over siw, here or in QEMU
	@$(GO) build -o bin/ ./cmd/rdmalink ./test/cmd/exchange ./test/cmd/demo
	@bin/demo

clean: ## remove what was built; kernels stay in ~/.cache/goverbs
	rm -rf bin
