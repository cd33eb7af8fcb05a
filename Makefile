# Everything that runs here needs Linux on amd64, Go, and for the kernel tests
# Debian 12's apt with root or sudo; those install what is missing by themselves.

GO ?= go
FUZZTIME ?= 10s
# Added to every go test, for instance TESTFLAGS='-v -run Dial'.
TESTFLAGS ?=
# Kernel series to test on, and the packages with kernel tests. Each package
# costs a boot, so there is one.
KERNELS ?= 6.12 6.1 7.2 uml-6.12
VM_PACKAGES ?= ./test
# Options of make bench, and of make mutate.
BENCH ?=
MUTATE ?=
# Rows of make test and make stress, all if empty; and how often make stress runs
# them, beside how many busy loops.
ROWS ?=
N ?= 8
HOGS ?= 2
# What a row needs first. make test sees to it once, for all of its rows.
READY ?= fetch build grpc
# The tests with many goroutines on one object.
RACE_TESTS ?= TestRxeManyPosters|TestRxeClosedUnderUse|TestRxeMsgPool|TestListenerClosedUnderDials

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
SUDO = $(if $(filter 0,$(shell id -u)),,sudo)

# Nothing of ours uses cgo; only the race detector asks for it.
export CGO_ENABLED = 0
# A clone that belongs to somebody else, as in a CI container, would stop go build.
# Without paths, one clone's build cache serves the next.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath

.DEFAULT_GOAL := help
.PHONY: help build grpc generate lint unit race fuzz abi sandbox programs cross fetch vm vmrace rig mutate test stress demo clean bench bench-check

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the static bin/rdmalink, the demo's programs, and the examples
	$(GO) build -o bin/ ./cmd/rdmalink ./test/cmd/exchange ./test/cmd/demo ./test/cmd/vm
	$(GO) build -o bin/ ./examples/... ./docs/concepts

# A module of its own: nothing else needs what gRPC does.
grpc: ## build bin/grpc, the example that needs gRPC
	$(GO) -C examples/grpc build -o ../../bin/grpc/ ./...

generate: cross ## generate internal/abi again from the kernel's headers
	$(GO) generate ./...

# What runs on macOS and Windows: on devices in software.
ANYWHERE := ./rdmatest ./rdmacm ./rsocket ./msg ./uverbs ./examples/...

lint: ## gofmt, go vet on every platform, test binaries for macOS and Windows, staticcheck, no cgo
	@out=$$(gofmt -l .); test -z "$$out" || { echo "run gofmt -w on:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags vm,vmhost ./...
	GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	for os in darwin windows; do GOOS=$$os $(GO) test -c -o /dev/null $(ANYWHERE) || exit 1; done
	$(GO) -C examples/grpc vet ./...
	$(GO) run $(STATICCHECK) -tags vm,vmhost ./...
	@out=$$(CGO_ENABLED=1 $(GO) list -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' ./... && \
		$(GO) list -deps -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' ./...); \
		test -z "$$out" || { echo "these use cgo:"; echo "$$out"; exit 1; }

# Without CI, tests that lack a C compiler, the kernel's headers, iproute2 or a
# shell are skipped here; the target abi runs those, and lets none be skipped.
unit: ## tests and fuzz seeds that need no kernel, no root and no network
	CI= $(GO) test -timeout 30m $(TESTFLAGS) ./...

# The race detector brings the checks of pointer conversions, -d=checkptr, along. What -short
# leaves out or shortens is for one goroutine, or too slow with it.
race: $(READY) ## the same under the race detector, and with pointer checks
	CI= CGO_ENABLED=1 $(GO) test -race -short -timeout 60m $(TESTFLAGS) ./...

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
		for target in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
			echo "fuzz $$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; \
		done; \
	done

abi: cross ## every kernel struct as C compilers lay it out; rdmalink beside two rdmas and in shells
	CI=true $(GO) test -count=1 $(TESTFLAGS) ./internal/abi/... ./internal/verbtable ./cmd/rdmalink
	CI=true PATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/goverbs/bookworm-backports:$$PATH" \
		$(GO) test -count=1 $(TESTFLAGS) -run AsIproute2 ./cmd/rdmalink

sandbox: programs ## C's programs, and ours, on devices in software: rdmalink sandbox
	CI=true $(GO) test -count=1 -parallel 4 -timeout 60m $(TESTFLAGS) ./cmd/rdmalink/internal/sandbox
	$(GO) build -o bin/sandbox/ ./cmd/rdmalink
	PATH="$(CURDIR)/bin/sandbox:$$PATH" $(GO) test -count=1 -timeout 60m $(TESTFLAGS) -run Sandbox ./examples/kv ./examples/read ./docs/concepts

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

# The limits are for tests that hang; a busy machine takes many times longer.
vm: $(READY) ## kernel tests, on KERNELS (6.12 6.1 7.2 in QEMU, uml-6.12)
	@set -e; for k in $(KERNELS); do \
		echo "== kernel $$k"; \
		$(GO) test -tags vm -count=1 -p 1 -timeout 80m $(TESTFLAGS) \
			-exec "$(CURDIR)/bin/vm run -kernel $$k -timeout 85m --" $(VM_PACKAGES); \
	done

vmrace: $(READY) ## RACE_TESTS under the race detector, and with pointer checks, on one kernel
	CGO_ENABLED=1 $(GO) test -race -tags vm,netgo,osusergo -ldflags '-linkmode=external -extldflags=-static' \
		-count=1 -timeout 60m $(TESTFLAGS) -run '$(RACE_TESTS)' \
		-exec "$(CURDIR)/bin/vm run -kernel $(firstword $(KERNELS)) -timeout 65m --" $(VM_PACKAGES)

rig: $(READY) ## test the test machine itself: output, exit code, crash, hang, cancel
	$(GO) test -tags vmhost -count=1 -timeout 60m $(TESTFLAGS) ./test/cmd/vm

# MUTATE='-n 300 -seed 7', '-own -run drain uverbs': go run ./test/cmd/mutate -h tells more.
mutate: ## change the source in one place at a time; nine in ten changes have to fail a unit test
	nice -n 10 $(GO) run ./test/cmd/mutate $(MUTATE)

# BENCH='-quick', '-suites calls,perf -runs 3': go run ./test/bench -h tells more.
bench: ## measure beside rdma-core, perftest and cgo; writes docs/performance.md
	$(GO) run ./test/bench $(BENCH)

bench-check: $(READY) ## run the benchmark briefly; allocations, doorbells, instructions may not grow
	$(GO) run ./test/bench -check

test: fetch build grpc bin/suite ## everything, two rows at a time; says at the end what ran
	@bin/suite $(if $(TESTFLAGS),-flags '$(TESTFLAGS)') $(ROWS)

stress: fetch build grpc bin/suite ## N times ROWS of make test, shuffled, beside HOGS busy loops
	@bin/suite -n $(N) -hogs $(HOGS) -shuffle $(if $(TESTFLAGS),-flags '$(TESTFLAGS)') $(ROWS)

bin/suite: FORCE
	@$(GO) build -o bin/suite ./test/cmd/suite

demo: build ## a Go server and client move data over siw, here or in QEMU
	@bin/demo

clean: ## remove what was built; kernels stay in ~/.cache/goverbs
	rm -rf bin
