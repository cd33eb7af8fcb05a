//go:build vm

package siw

import (
	"context"
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/exchange"
	"github.com/goverbs/goverbs/test/kit"
)

// TestExchange has client and server in this process, over one link.
func TestExchange(t *testing.T) {
	kit.Fabric(t)
	for host, sizes := range map[string][]int{kit.DummyIPv4: kit.FewElsewhere(kit.AllSizes, 4), kit.DummyIPv6: kit.SomeSizes} {
		t.Run(host, func(t *testing.T) {
			kit.NoLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
			defer cancel()
			ln, err := rdmacm.Listen(t.Context(), kit.HostPort(host, "0"))
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			for _, size := range sizes {
				kit.ExchangeOnce(ctx, t, ln, size)
			}
		})
	}
}

// TestExchangeAcross has them on two hosts, as it were: the server is the static
// binary in the other network namespace.
func TestExchangeAcross(t *testing.T) {
	kit.Fabric(t)
	for host, sizes := range map[string][]int{kit.FarIPv4: kit.FewElsewhere(kit.AllSizes[:5], 3), kit.FarIPv6: kit.SomeSizes} {
		t.Run(host, func(t *testing.T) {
			kit.NoLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
			defer cancel()
			server := kit.Start(t, kit.InFarSpace(exec.Command("../../bin/exchange", "-s", kit.HostPort(host, "7471"), "-n", fmt.Sprint(len(sizes)))))
			server.Line(t)
			for _, size := range sizes {
				sent, err := exchange.Client(ctx, kit.HostPort(host, "7471"), size)
				if err != nil {
					t.Fatalf("%d bytes: %v\n%s", size, err, &server.Stderr)
				}
				want := fmt.Sprintf("server: the client left %d bytes, CRC %08x", size, sent.CRC)
				if got := server.Line(t); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				t.Logf("%d bytes: write %v, read %v", size, sent.Write, sent.Read)
			}
			server.Finish(t)
		})
	}
}

// TestExchangeStatic has the static binary at both ends.
func TestExchangeStatic(t *testing.T) {
	kit.Fabric(t)
	server := kit.Start(t, exec.Command("../../bin/exchange", "-s", ":7471"))
	server.Line(t)
	out := kit.Sh(t, "../../bin/exchange -c "+kit.DummyIPv4+":7471 -size 100000")
	if !strings.HasPrefix(out, "client: 100000 bytes,") || !strings.HasSuffix(out, "data equal\n") {
		t.Errorf("%q", out)
	}
	server.Finish(t)
}

// TestStatic checks that neither program needs a loader or a library.
func TestStatic(t *testing.T) {
	for _, name := range []string{kit.RdmalinkBin, "../../bin/exchange"} {
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
