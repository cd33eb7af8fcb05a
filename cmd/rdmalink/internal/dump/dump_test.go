package dump

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/decode"
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

// TestWriteLinks checks that packets of several link types do not end up in one pcap file, which has one.
func TestWriteLinks(t *testing.T) {
	block := func(kind uint32, body []byte) []byte {
		size := uint32(12 + len(body))
		b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, kind), size)
		return binary.LittleEndian.AppendUint32(append(b, body...), size)
	}
	packet := func(number byte, data []byte) []byte {
		head := make([]byte, 20)
		head[0], head[12], head[16] = number, byte(len(data)), byte(len(data))
		return block(6, append(head, data...))
	}
	tcp := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 19: 0}, make([]byte, 20)...)
	file := slices.Concat(
		block(0x0a0d0d0a, []byte{0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}),
		block(1, []byte{decode.LinkRaw, 0, 0, 0, 0, 0, 0, 0}), block(1, []byte{decode.LinkIPv4, 0, 0, 0, 0, 0, 0, 0}),
		packet(0, tcp), packet(1, tcp), packet(0, tcp))
	copied := filepath.Join(t.TempDir(), "copy.pcap")
	out, err := dump(t, string(file), "-w", copied, "-")
	if want := "1 of 3 packets were not written: a pcap file has one link type"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v\n%s", err, out)
	}
	if got, err := os.Stat(copied); err != nil || got.Size() != 24+2*(16+40) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSkipped checks that dump reports skipped packets at the end of its output.
func TestSkipped(t *testing.T) {
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, decode.LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := w.Write(capture.Record{Data: append(make([]byte, 12), 8, 6), Full: 14}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := dump(t, file.String(), "-"); err != nil || out != "rdmalink: note: 3 of 3 packets were skipped: EtherType 0x0806 (3)\n" {
		t.Error(err, out)
	}
	if out, err := dump(t, file.String(), "-j", "-"); err != nil || out != `{"packets":3,"skipped":{"EtherType 0x0806":3}}`+"\n" {
		t.Error(err, out)
	}
	written := filepath.Join(t.TempDir(), "out")
	if out, err := dump(t, file.String(), "-w", written, "-"); err != nil || !strings.Contains(out, "3 of 3 packets were not written") {
		t.Error(err, out)
	}
	if out, err := dump(t, "", written); err != nil || out != "" {
		t.Error("a file without packets can't be read:", err, out)
	}
}

// TestWriteInput checks that dump refuses to write to the file that it reads.
func TestWriteInput(t *testing.T) {
	want, err := os.ReadFile(rcFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, want, 0o600), os.Link(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{file, link} {
		var usage cli.UsageError
		if _, err := dump(t, "", "-w", output, file); !errors.As(err, &usage) {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
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
