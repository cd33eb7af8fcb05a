package decode

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
)

// fields maps tshark's fields to ours. testdata/*.tsv holds the output of tshark 4.0
// for the capture of the same name, as testdata/golden.sh generates it.
var fields = []struct{ tshark, layer, name string }{
	{"infiniband.bth.opcode", "BTH", "opcode"},
	{"infiniband.bth.se", "BTH", "solicited"},
	{"infiniband.bth.m", "BTH", "migrated"},
	{"infiniband.bth.padcnt", "BTH", "pad"},
	{"infiniband.bth.tver", "BTH", "version"},
	{"infiniband.bth.p_key", "BTH", "pkey"},
	{"infiniband.bth.destqp", "BTH", "dest_qpn"},
	{"infiniband.bth.a", "BTH", "ack_request"},
	{"infiniband.bth.psn", "BTH", "psn"},
	{"infiniband.deth.q_key", "DETH", "qkey"},
	{"infiniband.deth.srcqp", "DETH", "src_qpn"},
	{"infiniband.reth.va", "RETH", "va"},
	{"infiniband.reth.r_key", "RETH", "rkey"},
	{"infiniband.reth.dmalen", "RETH", "dma_length"},
	{"infiniband.atomiceth.swapdt", "AtomicETH", "swap_add"},
	{"infiniband.atomiceth.cmpdt", "AtomicETH", "compare"},
	{"infiniband.aeth.syndrome", "AETH", "syndrome_number"},
	{"infiniband.aeth.msn", "AETH", "msn"},
	{"infiniband.atomicacketh.origremdt", "AtomicAckETH", "original"},
	{"infiniband.mad.method", "MAD", "method"},
	{"infiniband.mad.transactionid", "MAD", "transaction"},
	{"infiniband.mad.attributeid", "MAD", "attribute"},
	{"infiniband.cm.req.serviceid", "CM", "service_id"},
	{"infiniband.cm.req.localqpn", "CM", "qpn"},
	{"infiniband.cm.req.responderres", "CM", "responder_resources"},
	{"infiniband.cm.req.initdepth", "CM", "initiator_depth"},
	{"infiniband.cm.req.startpsn", "CM", "psn"},
	{"infiniband.cm.req.retrcount", "CM", "retry_count"},
	{"infiniband.cm.req.rnrretrcount", "CM", "rnr_retry"},
	{"infiniband.cm.rep.localqpn", "CM", "qpn"},
	{"infiniband.cm.rep.startpsn", "CM", "psn"},
	{"infiniband.cm.rej.reason", "CM", "reason"},
	{"iwarp_mpa.ulpdulength", "FPDU", "length"},
	{"iwarp_ddp.tagged_flag", "DDP", "tagged"},
	{"iwarp_ddp.last_flag", "DDP", "last"},
	{"iwarp_ddp.stag", "DDP", "stag"},
	{"iwarp_ddp.tagged_offset", "DDP", "to"},
	{"iwarp_ddp.qn", "DDP", "qn"},
	{"iwarp_ddp.msn", "DDP", "msn"},
	{"iwarp_ddp.mo", "DDP", "mo"},
	{"iwarp_rdma.opcode", "RDMAP", "opcode"},
	{"iwarp_rdma.inval_stag", "RDMAP", "invalidate_stag"},
	{"iwarp_rdma.sinkstag", "RDMAP", "sink_stag"},
	{"iwarp_rdma.sinkto", "RDMAP", "sink_to"},
	{"iwarp_rdma.rdmardsz", "RDMAP", "size"},
	{"iwarp_rdma.srcstag", "RDMAP", "source_stag"},
	{"iwarp_rdma.srcto", "RDMAP", "source_to"},
}

// captures are the files of testdata.
func captures(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*.pcap")
	if err != nil || len(all) == 0 {
		t.Fatal("no captures", err)
	}
	return all
}

// packets returns the packets of a capture, which must be of Ethernet.
func packets(t testing.TB, file string) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source, err := capture.Open(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := source.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil || r.Link != LinkEthernet {
			t.Fatal(r.Link, err)
		}
		all = append(all, bytes.Clone(r.Data))
	}
}

// frames are the messages of each packet of a capture.
func frames(t testing.TB, file string) (all [][]Message) {
	t.Helper()
	d := New()
	for _, b := range packets(t, file) {
		messages, _ := d.Packet(LinkEthernet, b)
		all = append(all, messages)
	}
	return all
}

// number is a value as tshark's and ours are compared.
func number(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case Hex:
		return fmt.Sprint(uint64(v))
	case bool:
		return map[bool]string{true: "1", false: "0"}[v]
	}
	return fmt.Sprint(v)
}

// theirs is a cell of tshark's: values in base 10 or 16, with commas between.
func theirs(cell string) (all []string) {
	for word := range strings.SplitSeq(cell, ",") {
		if n, err := strconv.ParseUint(word, 0, 64); err == nil {
			word = fmt.Sprint(n)
		}
		if word != "" {
			all = append(all, word)
		}
	}
	return all
}

// TestAsTshark compares each field of each packet.
func TestAsTshark(t *testing.T) {
	for _, file := range captures(t) {
		golden, err := os.Open(strings.TrimSuffix(file, ".pcap") + ".tsv")
		if err != nil {
			t.Fatal(err)
		}
		defer golden.Close()
		lines := bufio.NewScanner(golden)
		seen := make(map[string]int)
		lines.Scan()
		columns := strings.Split(lines.Text(), "\t")
		for i, messages := range frames(t, file) {
			if !lines.Scan() {
				t.Fatalf("%s: tshark has only %d packets", file, i)
			}
			cells := strings.Split(lines.Text(), "\t")
			for at, column := range columns {
				compare(t, fmt.Sprintf("%s, packet %d", file, i+1), column, theirs(cells[at]), messages, seen)
			}
		}
		if lines.Scan() {
			t.Errorf("%s: tshark has more packets", file)
		}
		if len(seen) < 10 {
			t.Errorf("%s: compared %v only", file, seen)
		}
	}
}

func compare(t *testing.T, where, column string, want []string, messages []Message, seen map[string]int) {
	t.Helper()
	at := slices.IndexFunc(fields, func(f struct{ tshark, layer, name string }) bool { return f.tshark == column })
	if at < 0 {
		t.Fatalf("nothing of ours is %s", column)
	}
	f := fields[at]
	if strings.HasPrefix(column, "infiniband.cm.") && len(want) == 0 { // other messages have a field of that name
		return
	}
	var got []string
	for _, m := range messages {
		v := m.Field(f.layer, f.name)
		if v == nil && f.layer == "RETH" { // tshark has one name for both
			v = m.Field("AtomicETH", f.name)
		}
		flag := f.name == "solicited" || f.name == "migrated" || f.name == "ack_request" || f.name == "last"
		if v == nil && flag && m.Field(f.layer, "version") != nil {
			v = false
		}
		if v != nil {
			got = append(got, number(v))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s is %v, tshark says %v", where, column, got, want)
	}
	if len(got) > 0 {
		seen[column] += len(got)
	}
}

// TestChecksums checks that the checksums of packets from a kernel are valid.
func TestChecksums(t *testing.T) {
	for _, file := range captures(t) {
		n := 0
		for i, messages := range frames(t, file) {
			for _, m := range messages {
				icrc, crc := m.Field("ICRC", "check"), m.Field("FPDU", "crc")
				switch {
				case icrc == "correct", crc == "correct", crc == "not used":
					n++
				case icrc != nil || crc != nil || m.Field("damaged", "why") != nil:
					t.Errorf("%s, packet %d: %+v", file, i+1, m)
				}
			}
		}
		if n < 20 {
			t.Errorf("%s: %d packets with a checksum", file, n)
		}
	}
}
