//go:build vm

package test

import (
	"context"
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/exchange"
)

var (
	someSizes = []int{1, 4095, 65537}
	allSizes  = []int{1, 7, 4095, 65537, 1 << 20, 64 << 20}
)

// TestExchange has client and server in this process, over one link.
func TestExchange(t *testing.T) {
	fabric(t)
	for host, sizes := range map[string][]int{dummyIPv4: fewElsewhere(allSizes, 4), dummyIPv6: someSizes} {
		t.Run(host, func(t *testing.T) {
			noLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			ln, err := rdmacm.Listen(hostPort(host, "0"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			for _, size := range sizes {
				exchangeOnce(ctx, t, ln, size)
			}
		})
	}
}

func exchangeOnce(ctx context.Context, t *testing.T, ln *rdmacm.Listener, size int) {
	t.Helper()
	served := make(chan error, 1)
	var got *exchange.Received
	go func() {
		var err error
		got, err = exchange.Serve(ctx, ln)
		served <- err
	}()
	sent, err := exchange.Client(ctx, ln.Addr().String(), size)
	if err != nil {
		t.Fatalf("%d bytes: client: %v", size, err)
	}
	if err := <-served; err != nil {
		t.Fatalf("%d bytes: server: %v", size, err)
	}
	if got.Size != size || got.CRC != sent.CRC {
		t.Errorf("the client wrote %d bytes, CRC %08x; the server has %d, CRC %08x", size, sent.CRC, got.Size, got.CRC)
	}
	t.Logf("%d bytes: write %v, read %v", size, sent.Write, sent.Read)
}

// TestExchangeAcross has them on two hosts, as it were: the server is the static
// binary in the other network namespace.
func TestExchangeAcross(t *testing.T) {
	fabric(t)
	for host, sizes := range map[string][]int{farIPv4: fewElsewhere(allSizes[:5], 3), farIPv6: someSizes} {
		t.Run(host, func(t *testing.T) {
			noLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			server := start(t, inFarSpace(exec.Command("../../bin/exchange", "-s", hostPort(host, "7471"), "-n", fmt.Sprint(len(sizes)))))
			server.line(t)
			for _, size := range sizes {
				sent, err := exchange.Client(ctx, hostPort(host, "7471"), size)
				if err != nil {
					t.Fatalf("%d bytes: %v\n%s", size, err, &server.stderr)
				}
				want := fmt.Sprintf("server: the client left %d bytes, CRC %08x", size, sent.CRC)
				if got := server.line(t); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				t.Logf("%d bytes: write %v, read %v", size, sent.Write, sent.Read)
			}
			server.finish(t)
		})
	}
}

// TestExchangeStatic has the static binary at both ends.
func TestExchangeStatic(t *testing.T) {
	fabric(t)
	server := start(t, exec.Command("../../bin/exchange", "-s", ":7471"))
	server.line(t)
	out := sh(t, "../../bin/exchange -c "+dummyIPv4+":7471 -size 100000")
	if !strings.HasPrefix(out, "client: 100000 bytes,") || !strings.HasSuffix(out, "data equal\n") {
		t.Errorf("%q", out)
	}
	server.finish(t)
}

// TestStatic: neither program needs a loader or a library.
func TestStatic(t *testing.T) {
	for _, name := range []string{rdmalinkBin, "../../bin/exchange"} {
		f, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s has a %v segment", name, p.Type)
			}
		}
		if f.SectionByType(elf.SHT_DYNAMIC) != nil {
			t.Errorf("%s has a dynamic section", name)
		}
	}
}
