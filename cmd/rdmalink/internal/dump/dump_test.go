package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func dump(t *testing.T, stdin string, words ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(context.Background(), cli.Output{Stdout: &out, Stderr: &out}, strings.NewReader(stdin), words)
	return out.String(), err
}

const rcFile = "decode/testdata/rxe-rc.pcap"

func TestText(t *testing.T) {
	out, err := dump(t, "", "-c", "3", rcFile)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "1 0.000000 10.85.0.") || !strings.Contains(lines[0], ":4791 BTH operation (RC SEND_ONLY) opcode 4 ") ||
		!strings.HasSuffix(lines[0], "; payload length 100; ICRC check correct") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestJSON(t *testing.T) {
	file, err := os.ReadFile(rcFile)
	if err != nil {
		t.Fatal(err)
	}
	out, err := dump(t, string(file), "-j", "-c1", "-")
	var got struct {
		Packet   int
		Src, Dst string
		BTH      struct {
			Operation string
			Opcode    int
		}
		ICRC struct{ Check string }
	}
	if bad := json.Unmarshal([]byte(out), &got); bad != nil || err != nil || got.Packet != 1 || got.BTH.Operation != "RC SEND_ONLY" || got.BTH.Opcode != 4 || got.ICRC.Check != "correct" || !strings.HasSuffix(got.Dst, ":4791") {
		t.Errorf("%v, %v: %+v", bad, err, got)
	}
}

// TestWrite checks that a copy decodes like the original.
func TestWrite(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "copy.pcap")
	if out, err := dump(t, "", "-w", copied, rcFile); err != nil || out != "" {
		t.Fatal(err, out)
	}
	want, err := dump(t, "", rcFile)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := dump(t, "", copied); err != nil || got != want || got == "" {
		t.Error(err, got)
	}
}

func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":        "nothing to read: give FILE or -i NETDEV",
		"a b":     `unexpected argument "b"`,
		"-i lo a": "-i NETDEV and FILE exclude each other",
		"-c x a":  `"x": the count must be a number from 0 to 2147483647`,
	} {
		var usage cli.UsageError
		if _, err := dump(t, "", strings.Fields(line)...); !errors.As(err, &usage) || usage.Text != want {
			t.Errorf("%s: %v", line, err)
		}
	}
	all, err := net.Interfaces()
	if err != nil || len(all) == 0 {
		t.Skip("no network device:", err)
	}
	lo := all[0]
	for line, want := range map[string]string{
		"/no/such/file": "no such file",
		lo.Name:         "to listen on network device " + lo.Name + ", run rdmalink dump -i " + lo.Name,
		"-":             "not a capture file",
		"-i nosuchdev":  "network device nosuchdev: ",
	} {
		if _, err := dump(t, "text", strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	strange := "\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x09\x00\x00\x00" + strings.Repeat("\x00", 16)
	if _, err := dump(t, strange, "-"); err == nil || !strings.HasPrefix(err.Error(), "packets of link type 9 can't be read") {
		t.Error(err)
	}
}
