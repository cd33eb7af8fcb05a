//go:build vm

package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestPerfBandwidthShapes: many QPs, lists, completions for many, both directions,
// inline data, and depths that make the sender wait for the receiver.
func TestPerfBandwidthShapes(t *testing.T) {
	only612(t)
	for _, test := range []struct {
		link       perfLink
		name, line string
		messages   int
	}{
		{perfRxe, "send bw", "-n 60 -s 100 -q 5 -r 8", 300},
		{perfRxe, "write bw", "-n 60 -s 100 -l 20 -Q 10 -q 3", 180},
		{perfRxe, "write bw", "-n 150 -s 64 -I 64 -Q 7", 150},
		{perfRxe, "read bw", "-n 40 -b -q 2 -o 2 --perform_warm_up", 80},
		{perfRxe, "send bw", "-n 60 -b -q 2 -s 200 -e", 120},
		{perfRxe, "atomic bw", "-n 30 -A CMP_AND_SWAP -t 4", 30},
		{perfSiwCM, "send bw", "-n 20 -q 64 -s 10 -r 6 -t 20 -Q 4", 1280},
		{perfSiwCM, "send bw", "-n 300 -q 3 -s 10 -r 3 -b -e", 900},
		{perfSiwCM, "send bw", "-n 300 -s 5000 -r 100 -l 5 -e", 300},
		{perfSiwCM, "write bw", "-n 200 -s 4096 -b -q 8 -Q 16 -N", 1600},
		{perfSiwCM, "read bw", "-n 50 -s 1M -t 2", 50},
	} {
		t.Run(fmt.Sprintf("%s: %s %s", test.link.name, test.name, test.line), func(t *testing.T) {
			test.link.up(t)
			server, client := perfed(t, test.link, test.name, test.line)
			for _, j := range []perfJSON{server, client} {
				if len(j.Results) != 1 || j.Results[0]["iterations"] != float64(test.messages) {
					t.Errorf("%s: %v, want %d messages", j.Role, j.Results, test.messages)
				}
			}
			if peak, ok := client.Results[0]["bw_peak_bytes_per_sec"].(float64); ok == strings.Contains(test.line, "-N") || peak < 0 {
				t.Errorf("peak %v", client.Results[0])
			}
		})
	}
}

// TestPerfAllSizes: -a goes through the sizes; datagrams to the MTU.
func TestPerfAllSizes(t *testing.T) {
	only612(t)
	for _, test := range []struct {
		link       perfLink
		name, line string
		largest    float64
	}{
		{perfRxe, "send lat", "-c UD", 1024}, {perfRxe, "send bw", "-c UD -b", 1024},
		{perfSiwCM, "send bw", "-q 2", 1 << 23}, {perfSiwCM, "write lat", "", 1 << 23}, {perfSiwCM, "read bw", "-b", 1 << 23},
	} {
		t.Run(test.link.name+" "+test.name+" "+test.line, func(t *testing.T) {
			test.link.up(t)
			_, client := perfed(t, test.link, test.name, "-n 5 -a "+test.line)
			want := 2.0
			for _, r := range client.Results {
				if r["size_bytes"] != want {
					t.Fatalf("size %v, want %v", r["size_bytes"], want)
				}
				want *= 2
			}
			if want != 2*test.largest {
				t.Errorf("the last size is %v", want/2)
			}
		})
	}
}

// TestPerfDuration: the time decides, of either test.
func TestPerfDuration(t *testing.T) {
	only612(t)
	fabric(t)
	for _, name := range []string{"send lat", "write lat -s 100", "read lat -e", "send bw -s 1000", "send bw -s 1000 -b -e", "write bw -s 1000 -b"} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			test, line := strings.Join(strings.Fields(name)[:2], " "), strings.Join(strings.Fields(name)[2:], " ")+" -j"
			serverOut, clientOut := playLonger(t, func(duration string) (serverOut, clientOut output) {
				return perfSiwCM.play(t, perfSiwCM.perf("Go", test, line+duration), perfSiwCM.perf("Go", test, line+duration))
			})
			if serverOut.Code != 0 || clientOut.Code != 0 {
				t.Fatalf("%+v\n%+v", serverOut, clientOut)
			}
			j := decodePerf(t, clientOut)
			if strings.Contains(test, "lat") {
				j.has(t, 0, "iterations", "t_avg_usec", "tps")
			} else {
				j.has(t, 0, perfColumns["bw"]...)
			}
		})
	}
}

// perfNothingDone is what an end says in whose time nothing was done, as may be on a
// busy machine.
const perfNothingDone = "give -D more time"

// playLonger begins with a second, and gives more to runs in which nothing was done.
func playLonger(t *testing.T, play func(duration string) (serverOut, clientOut output)) (serverOut, clientOut output) {
	t.Helper()
	for seconds := 1; ; seconds *= 2 {
		serverOut, clientOut = play(fmt.Sprint(" -D ", seconds))
		if seconds > 60 || !strings.Contains(serverOut.Err+clientOut.Err, perfNothingDone) {
			return serverOut, clientOut
		}
	}
}

// TestPerfSamples: -H and -U print each latency, all but the two that count
// nowhere sorted, all of them as they came.
func TestPerfSamples(t *testing.T) {
	only612(t)
	rxeFabric(t)
	samples := func(j perfJSON) (all []float64) {
		for _, v := range j.Results[0]["samples_usec"].([]any) {
			all = append(all, v.(float64))
		}
		return all
	}
	_, sorted := perfed(t, perfRxe, "read lat", "-n 20 -H")
	if all := samples(sorted); len(all) != 17 || !slices.IsSorted(all) || all[0] != sorted.Results[0]["t_min_usec"] {
		t.Errorf("%v", sorted.Results)
	}
	_, unsorted := perfed(t, perfRxe, "read lat", "-n 20 -U")
	if all := samples(unsorted); len(all) != 19 || slices.Min(all) != unsorted.Results[0]["t_min_usec"] {
		t.Errorf("%v", unsorted.Results)
	}
	_, out := perfRxe.play(t, perfRxe.perf("Go", "read lat", "-n 20"), perfRxe.perf("Go", "read lat", "-n 20 -U"))
	if !strings.Contains(out.Out, "#, usec\n1, ") || !strings.Contains(out.Out, "\n19, ") || strings.Contains(out.Out, "\n20, ") {
		t.Errorf("%+v", out)
	}
}
