package perfcmd

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/perftest"
)

//go:embed testdata/perftest-4.5-options.txt
var perftestOptions string

// values are values of options that take one, which perftest would take too.
var values = map[string]string{
	"atomic_type": "CMP_AND_SWAP", "connection": "RC", "ib-dev": "rxe0", "duration": "9", "vector": "1 -e", "margin": "2 -D 9", "ib-port": "1",
	"inline_size": "64", "post_list": "2 -Q 2", "hop_limit": "9", "mtu": "1024", "iters": "10", "outs": "2", "port": "7", "qp": "2", "cq-mod": "5",
	"rx-depth": "16", "size": "64", "sl": "1", "tx-depth": "16", "qp-timeout": "14", "limit_bw": "2.5", "gid-index": "1", "limit_msgrate": "0.5",
	"log_dci_streams": "2 -c DC", "log_active_dci_streams": "1 --log_dci_streams 2 -c DC",
	"dlid": "7", "force-link": "IB", "source_ip": "10.0.0.1 -R", "pkey_index": "1", "retry_count": "3 -R", "tclass": "8", "wait_destroy": "1",
}

// refusedNames are the options that are refused, each with the reason.
const refusedNames = ` report-cycles mcg MGID dualport tos version report-counters com_rdma_cm aes_block_size aes_xts burst_size cpu_util
 credentials_path data_enc_key_app_path data_enc_keys_number dont_xchg_versions encrypt_on_tx inline_recv ipv6 kek_path latency_gap
 mmap mmap-offset mr_per_qp out_json out_json_file output rate_limit rate_limit_type rate_units
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

// newNames are the options of perftest 6.29.
const newNames = `port ib-dev ib-port mtu size iters tx-depth qp-timeout sl gid-index all CPU-freq connection qp events vector
inline_size outs mcg comm_rdma_cm rdma_cm tos hop_limit MGID rx-depth bidirectional cq-mod noPeak version
report-cycles report-histogrm report-unsorted atomic_type dualport post_list duration margin source_mac
dest_mac dest_ip source_ip dest_port source_port ethertype limit_bw limit_msgrate server client mac_fwd
use_rss report-counters force-link remote_mac local_mac remote_ip local_ip remote_port local_port
run_infinitely report_gbits use-srq no_lock use-null-mr report-both reversed pkey_index tcp burst_size
typical_pkt_size rate_limit rate_limit_type rate_units output cpu_util out_json out_json_file latency_gap
flow_label retry_count dont_xchg_versions payload_file_path use_cuda use_cuda_bus_id use_cuda_dmabuf
use_cuda_pcie_mapping use_data_direct cuda_mem_type use_musa use_musa_bus_id use_musa_dmabuf
use_musa_pcie_mapping use_rocm use_rocm_dmabuf use_neuron use_neuron_dmabuf use_hl use_mlu use_mlu_dmabuf
use_opencl opencl_platform_id use_ib_dm_dmabuf gpu_touch mmap mmap-offset ipv6 ipv6-addr raw_ipv6
report-per-port odp use_hugepages use_old_post_send promiscuous sniffer raw_mcast mr_per_qp dlid tclass
wait_destroy flows flows_burst reply_every perform_warm_up vlan_en vlan_pcp recv_post_list aes_xts
encrypt_on_tx sig_before aes_block_size kek_path credentials_path data_enc_keys_number data_enc_key_app_path
log_dci_streams log_active_dci_streams disable_pcie_relaxed use_ooo congest_type bind_source_ip write_with_imm
send_with_imm no_enhanced_reorder unsolicited_write connectionless cqe_poll tph_mem cpu_id ph
disable_dynamic_polling sig_offload data_validation data_validation_debug pin_cores numa_node disable_numa`

// TestPerfNewOptions checks that each option of perftest 6.29 is accepted, or refused with a reason by a
// test.
func TestPerfNewOptions(t *testing.T) {
	known := make(map[string]bool)
	for _, verb := range []perftest.Verb{perftest.Send, perftest.Write, perftest.Read, perftest.Atomic} {
		for _, latency := range []bool{false, true} {
			for _, row := range (Kind{verb, latency}).parser() {
				known[row.Long] = true
			}
		}
	}
	for _, name := range strings.Fields(newNames) {
		if !known[name] {
			t.Errorf("--%s: neither accepted nor refused", name)
		}
	}
}
