//go:build vm

package tool

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
)

// traceLine is one line of rdmalink trace -j.
type traceLine struct {
	Node, Call, Name string
	Args             map[string]string
	Result           int
}

// straced are a write or an RDMA_VERBS_IOCTL in strace's words, with -y and -xx.
var straced = regexp.MustCompile(`(?m)^\d+ +(ioctl|write)\(\d+<(?:\\x[0-9a-f]{2}|[^>])*>, (?:"\\x([0-9a-f]{2})[^"]*"|RDMA_VERBS_IOCTL|_IOC[^,]*0x1b, 0x1[^,]*,)`)

// TestTrace checks that rping of C and ours ask the same of the kernel under rdmalink trace as under strace: the same
// commands of rdma_cm, each as often, and of C's as many requests by ioctl.
func TestTrace(t *testing.T) {
	if kit.OnUML() {
		t.Skip("User Mode Linux has no PTRACE_GET_SYSCALL_INFO")
	}
	kit.CMLink(t, "siw")
	for _, program := range []string{"C", "Go"} {
		t.Run(program, func(t *testing.T) {
			words := kit.Rping(program, "-c -C 2 -a 10.78.0.1").Args
			file := filepath.Join(t.TempDir(), "trace")
			under := func(tracer ...string) string {
				server := kit.ServeCM(t, kit.Rping("C", "-s -C 2 -a 10.78.0.1"), "7174")
				client := kit.Launch(t, exec.Command(tracer[0], append(tracer[1:], words...)...)).End()
				server.End()
				if client.Code != 0 {
					t.Errorf("%v: %+v", tracer, client)
				}
				return string(kit.Must(os.ReadFile(file))(t))
			}
			ours := tracedCM(t, under(kit.RdmalinkBin, "trace", "-jo", file, "--"))
			theirs := stracedCM(under("strace", "-f", "-y", "-s", "1", "-xx", "-e", "trace=ioctl,write", "-o", file))
			if ours["ioctl"] < 10 || ours["00"] == 0 {
				t.Errorf("%v", ours)
			}
			if program == "Go" { // whose number of requests depends on which end closes first
				delete(ours, "ioctl")
				delete(theirs, "ioctl")
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("%v:\n-strace +trace\n%s", ours, diff)
			}
		})
	}
}

// cmNumbers are the commands of rdma_cm that rping uses.
var cmNumbers = map[string]string{"CREATE_ID": "00", "RESOLVE_IP": "03", "RESOLVE_ROUTE": "04", "CONNECT": "06", "DISCONNECT": "0a", "DESTROY_ID": "01",
	"INIT_QP_ATTR": "0b", "RESOLVE_ADDR": "15", "QUERY": "13", "QUERY_ROUTE": "05", "BIND": "14", "SET_OPTION": "0e", "GET_EVENT": "0c"}

// tracedCM counts the requests, and rdma_cm's commands by number. GET_EVENT is left out:
// how often a program asks in vain depends on the time.
func tracedCM(t *testing.T, text string) map[string]int {
	t.Helper()
	counts, events := make(map[string]int), 0
	for line := range strings.Lines(text) {
		var one traceLine
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case one.Call == "ioctl":
			counts["ioctl"]++
		case one.Call == "write" && one.Node == "rdma_cm" && one.Name == "GET_EVENT":
			if one.Args["event"] == "ESTABLISHED" {
				events++
			}
		case one.Call == "write" && one.Node == "rdma_cm":
			number, ok := cmNumbers[one.Name]
			if !ok {
				t.Errorf("%+v", one)
			}
			counts[number]++
		}
	}
	if events != 1 {
		t.Errorf("%d connections\n%s", events, text)
	}
	return counts
}

// stracedCM counts the same in what strace printed. Files' names are in base 16 there.
func stracedCM(text string) map[string]int {
	counts := make(map[string]int)
	const node = `\x2f\x72\x64\x6d\x61\x5f\x63\x6d>` // /rdma_cm
	for line := range strings.Lines(text) {
		m := straced.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == "ioctl":
			counts["ioctl"]++
		case strings.Contains(line, node) || strings.Contains(line, "/rdma_cm>"):
			if m[2] != cmNumbers["GET_EVENT"] {
				counts[m[2]]++
			}
		}
	}
	return counts
}
