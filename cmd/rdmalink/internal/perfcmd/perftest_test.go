package perfcmd

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

//go:embed testdata/perftest-4.5-options.txt
var perftestOptions string

// values are values of options that take one, which perftest would take too.
var values = map[string]string{
	"atomic_type": "CMP_AND_SWAP", "connection": "RC", "ib-dev": "rxe0", "duration": "9", "vector": "1 -e", "margin": "2 -D 9", "ib-port": "1",
	"inline_size": "64", "post_list": "2 -Q 2", "hop_limit": "9", "mtu": "1024", "iters": "10", "outs": "2", "port": "7", "qp": "2", "cq-mod": "5",
	"rx-depth": "16", "size": "64", "sl": "1", "tx-depth": "16", "qp-timeout": "14", "limit_bw": "2.5", "gid-index": "1", "limit_msgrate": "0.5",
	"dlid": "7", "force-link": "IB", "source_ip": "10.0.0.1 -R", "pkey_index": "1", "retry_count": "3 -R", "tclass": "8", "wait_destroy": "1",
}

// refusedNames are the options that are refused, each with the reason.
const refusedNames = ` report-cycles mcg MGID dualport tos version report-counters com_rdma_cm aes_block_size aes_xts burst_size cpu_util
 credentials_path data_enc_key_app_path data_enc_keys_number dont_xchg_versions encrypt_on_tx inline_recv ipv6 kek_path latency_gap
 log_active_dci_streams log_dci_streams mmap mmap-offset mr_per_qp out_json out_json_file output rate_limit rate_limit_type rate_units
 recv_post_list report-both report-per-port reversed run_infinitely sig_before typical_pkt_size use-srq use_hugepages `

// TestPerftestOptions checks that every option in the help of perftest 4.5's
// programs is accepted by the test of its name, by letter and by name, or refused
// with a reason.
func TestPerftestOptions(t *testing.T) {
	seen := 0
	for line := range strings.Lines(perftestOptions) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		for _, program := range words[2:] {
			test := strings.ReplaceAll(program, "_", " ")
			for _, name := range words[:2] {
				if name != "-" {
					seen++
					checkPerftestOption(t, test, name, words[1][2:])
				}
			}
		}
	}
	if seen < 700 {
		t.Errorf("%d options", seen)
	}
}

func checkPerftestOption(t *testing.T, test, name, long string) {
	t.Helper()
	if long == "help" {
		return // the tests of package main have that
	}
	refused := strings.Contains(strings.ReplaceAll(refusedNames, "\n", " "), " "+long+" ") ||
		long == "perform_warm_up" && (strings.HasSuffix(test, "lat") || strings.HasPrefix(test, "send"))
	value := values[long]
	if refused {
		value = "1"
	}
	_, err := parseLine(test + " " + name + " " + value + " host")
	switch {
	case !refused && err != nil:
		t.Errorf("%s %s %s: %v", test, name, value, err)
	case refused && err == nil:
		t.Errorf("%s %s is taken", test, name)
	case refused && (!strings.Contains(err.Error(), ": ") || strings.Contains(err.Error(), "expected one of") || len(err.Error()) < 40):
		t.Errorf("%s %s: %v: no reason", test, name, err)
	}
	if _, usage := err.(cli.UsageError); err != nil && !usage {
		t.Errorf("%s %s: %v is no usage error", test, name, err)
	}
}

// TestPerfRefusedHidden checks that the help lists no refused options.
func TestPerfRefusedHidden(t *testing.T) {
	k := Kind{}
	_, err := parseLine("send bw --nothing")
	for _, r := range refused {
		if strings.Contains(k.options().Help(), "--"+r.long+" ") || strings.Contains(err.Error(), "--"+r.long+",") {
			t.Errorf("--%s is offered", r.long)
		}
	}
}
