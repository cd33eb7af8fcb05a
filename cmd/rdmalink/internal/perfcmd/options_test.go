package perfcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// parseLine reads a line such as "send lat -s 2 host".
func parseLine(line string) (options, error) {
	words := strings.Fields(line)
	k := Kind{Latency: words[1] == "lat"}
	for v := perftest.Send; v <= perftest.Atomic; v++ {
		if v.String() == words[0] {
			k.Verb = v
		}
	}
	return parse(k, words[2:])
}

func TestPerfOptions(t *testing.T) {
	engine := func(verb perftest.Verb, change func(*perf.Options)) perf.Options {
		o := perf.Options{Test: perftest.Test{Verb: verb}, Port: 1, Role: perftest.Server}
		change(&o)
		return o
	}
	for line, want := range map[string]perf.Options{
		"send lat":      engine(perftest.Send, func(o *perf.Options) { o.Latency = true }),
		"send lat host": engine(perftest.Send, func(o *perf.Options) { o.Latency, o.Role = true, perftest.Client }),
		"send bw -abeNR -c UD -d rxe0 -I 64 -l 8 -n 16 -p 7 -q 64 -Q 4 -r 32 -t 16 --report_gbits -j h": engine(perftest.Send, func(o *perf.Options) {
			o.AllSizes, o.Bidirectional, o.Events, o.NoPeak, o.CM, o.Gbits, o.Role = true, true, true, true, true, true, perftest.Client
			o.Type, o.Inline, o.PostList, o.Iters, o.QPCount, o.CQMod, o.RxDepth, o.TxDepth = verbs.QPTypeUD, 64, 8, 16, 64, 4, 32, 16
		}),
		"write bw --size=64K --iters 10 --connection UC -i 2 -m 256 -S 3 --tclass 4 -u 5 -x 6 --perform_warm_up": engine(perftest.Write, func(o *perf.Options) {
			o.Size, o.Iters, o.Type, o.Port, o.MTU, o.SL, o.TrafficClass, o.QPTimeout, o.WarmUp = 64<<10, 10, verbs.QPTypeUC, 2, verbs.MTU256, 3, 4, 5, true
		}),
		"read lat -s 1M -o 4 -D 3": engine(perftest.Read, func(o *perf.Options) {
			o.Latency, o.Size, o.OutReads, o.Time = true, 1<<20, 4, 3*time.Second
		}),
		"send bw -e -X 3 -D 9 -f 2 -F -L 9 --pkey_index 1 --dlid 7 --force-link Ethernet --odp --wait_destroy 4": engine(perftest.Send, func(o *perf.Options) {
			o.Events, o.CompVector, o.Time, o.Margin, o.HopLimit, o.PKeyIndex, o.DLID, o.Link = true, 3, 9*time.Second, 2*time.Second, 9, 1, 7, verbs.LinkEthernet
			o.ODP, o.WaitDestroy = true, 4*time.Second
		}),
		"send lat -R --retry_count 3": engine(perftest.Send, func(o *perf.Options) { o.Latency, o.CM, o.RetryCount = true, true, 3 }),
		"send lat -R --retry_count 0": engine(perftest.Send, func(o *perf.Options) { o.Latency, o.CM, o.RetryCount = true, true, -1 }),
		"atomic bw -A CMP_AND_SWAP":   engine(perftest.Atomic, func(o *perf.Options) { o.Atomic = verbs.OpCompareSwap }),
	} {
		got, err := parseLine(line)
		if diff := cmp.Diff(want, got.Options); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
	o, err := parseLine("send lat -R --source_ip 10.0.0.1 -d rxe0 -p 7 -U h")
	if err != nil || o.source != "10.0.0.1" || o.device != "rxe0" || o.tcpPort != 7 || !o.unsorted || o.host != "h" || o.gid != -1 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestPerfUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"send lat -b":                      `"-b": expected one of -a, -c, `,
		"send lat -t 3":                    `"-t": expected one of `,
		"write lat -e":                     `"-e": expected one of `,
		"write bw -r 3":                    `"-r": expected one of `,
		"atomic lat -s 8":                  `"-s": expected one of `,
		"atomic bw -a":                     `"-a": expected one of `,
		"read bw -c UC":                    "-c UC: only RC supports READ and atomics",
		"atomic lat -c UD":                 "-c UD: datagrams support SEND only",
		"send bw -D 4 -f 2":                "-f: twice the margin must be less than -D",
		"send bw -f 2":                     "-f: twice the margin must be less than -D",
		"send bw -X 1":                     "-X needs -e",
		"send bw --retry_count 1":          "--retry_count needs -R",
		"send bw -R --pkey_index 1":        "--pkey_index and -R: rdma_cm decides that",
		"send bw -R --dlid 1":              "--dlid and -R: rdma_cm decides that",
		"send bw -R -L 1":                  "-L and -R: rdma_cm decides that",
		"send bw --force-link ib":          `"ib": expected one of IB, Ethernet`,
		"send bw -w 0":                     `"0": the bandwidth must be a number above 0`,
		"send bw -y NaN":                   `"NaN": the message rate must be a number above 0`,
		"send bw -H":                       `"-H": expected one of `,
		"send bw --source":                 `"--source": expected one of `,
		"send lat a b":                     `unexpected argument "b"`,
		"send lat -n 4":                    `"4": the number of messages must be a number from 5 to 100000000`,
		"send lat -s 0":                    `"0": the size must be a number from 1 to 2147483647`,
		"send lat -s 2048M":                `"2048M": the size must be a number`,
		"send lat -c XRC":                  `"XRC": expected one of RC, UC, UD, SRD, DC`,
		"write bw -R -c DC":                "-R and -c DC: rdma_cm connects RC and UD only",
		"write lat -c UD":                  "-c UD: datagrams support SEND only",
		"write lat -c SRD":                 "-c SRD: it fills memory in any order",
		"atomic bw -c SRD":                 "-c SRD: only RC supports atomics",
		"send lat -R -c SRD":               "-R and -c SRD: rdma_cm connects RC and UD only",
		"atomic lat -A ADD":                `"ADD": expected one of FETCH_AND_ADD, CMP_AND_SWAP`,
		"send lat -m 1500":                 `"1500": expected one of 256, 512, 1024, 2048, 4096`,
		"send lat -D 1 -n 10":              "-D and -n: give either a duration or a number of messages",
		"send lat -D 1 -a":                 "-D and -a: with -D only one size is measured",
		"send lat -a -s 2":                 "-s and -a: give either one size or all",
		"send lat -H -U":                   "-H and -U: give only one of them",
		"send lat -D 1 -U":                 "-H and -U need -n",
		"send lat --source_ip 10.0.0.1":    "--source_ip needs -R",
		"send lat -R -c UC":                "-R and -c UC: rdma_cm connects RC and UD only",
		"send lat -R -x 1":                 "-x and -R: rdma_cm decides that",
		"send lat -R --tclass 1":           "--tclass and -R: rdma_cm decides that",
		"send bw -l 200":                   "-l 200: longer than the send queue, -t 128",
		"send bw -l 3":                     "-n 1000 is not a multiple of -l 3",
		"send bw -l 10 -Q 4":               "-l 10 is not a multiple of -Q 4",
		"send lat -j -R --source_ip x 1.1": "--source_ip: ",

		"send lat --log_dci_streams 2":             "only -c DC has streams",
		"send lat -c DC --log_dci_streams 17":      `"17": the logarithm of a number of streams must be a number from 1 to 16`,
		"send bw -c DC --log_active_dci_streams 2": "--log_active_dci_streams needs --log_dci_streams",
	} {
		_, err := parseLine(line)
		if err == nil && strings.HasPrefix(want, "--source_ip: ") {
			_, err = (&session{options: options{source: "x", host: "1.1"}}).meetOverCM(t.Context())
		}
		if _, usage := err.(cli.UsageError); !usage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
