//go:build vm

package netlink

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
)

// TestDevAndLinkAsRdma compares the listings of devices and their ports: one
// that was renamed, one whose network device is down, from another namespace.
func TestDevAndLinkAsRdma(t *testing.T) {
	sameAsRDMA(t, "-jp dev") // with none, or those of other tests
	sameAsRDMA(t, "link")
	for i, typ := range kit.LinkTypes() {
		kit.Dummy(t, typ+"netdev", fmt.Sprintf("10.1.%d.1/24", i+1))
		kit.Link(t, "gv"+typ, typ, typ+"netdev")
	}
	kit.Sh(t, "ip link set rxenetdev down")
	kit.Dummy(t, "gvtakennet")
	kit.Link(t, "gvtaken", "rxe", "gvtakennet")
	done(t, "dev set gvrxe name gvnamed")
	for _, line := range kit.FewElsewhere([]string{
		"-d dev", "-d link", "-jpd dev", "-jp link", "-p dev", "-j d", "dev list gvnamed", "de s gvnamed --det", "-jd dev show gvnamed", "-j dev show gvrxe", "dev frob", "dev show gvnamed frob",
		"-jd l s gvnamed/1", "link list gvnamed/1", "-j link show gvrxe/1", "link show gvnamed/2", "link show gvnamed/-", "link frob",
	}, 4) {
		sameAsRDMA(t, line)
	}
	for _, line := range []string{"-d -o dev", "--oneline link --details"} {
		same(kit.NewerRDMA, t, line, kit.Rdmalink(t, line))
	}
	if whole, port := kit.Rdmalink(t, "show gvnamed"), kit.Iproute2(t, "link show gvnamed/1"); whole != port {
		t.Errorf("without the port: %+v, rdma with it %+v", whole, port)
	}
	changesAsRDMA(t)
	batchesAsRDMA(t)
	t.Run("elsewhere", func(t *testing.T) {
		kit.NewNetns(t)
		for _, line := range []string{"-d dev", "-d link", "-jd link"} {
			sameAsRDMA(t, line)
		}
	})
}

// done runs a command that has to succeed and has nothing to say.
func done(t *testing.T, line string) {
	t.Helper()
	if diff := cmp.Diff(kit.Output{}, kit.Rdmalink(t, line)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", line, diff)
	}
}

// changesAsRDMA checks that each program sees the other's changes and fails where the other fails.
func changesAsRDMA(t *testing.T) {
	for _, on := range []string{"on", "off"} {
		done(t, "dev set gvnamed adaptive-moderation "+on)
		if got := kit.NewerRDMA.Run(t, "-d dev show gvnamed").Out; !strings.Contains(got, "adaptive-moderation "+on) {
			t.Errorf("set %s: %s", on, got)
		}
	}
	kit.NewerRDMA.Run(t, "dev set gvnamed adaptive-moderation on")
	kit.NewerRDMA.Run(t, "dev set gvnamed name gvother")
	if got := kit.Rdmalink(t, "-d dev show gvother"); got.Code != 0 || !strings.Contains(got.Out, "adaptive-moderation on") {
		t.Errorf("%+v", got)
	}
	refused := map[string]string{
		"dev set gvother name gvtaken":          "another device has that name",
		"dev set nosuch name a":                 "no such RDMA device",
		"dev set gvother netns nosuch":          "no network namespace",
		"dev add gvsub type smi parent gvother": "sub-device",
		"dev delete gvother":                    "sub-device",
		"link delete nosuch":                    "no such RDMA device",
	}
	// iproute2 takes names only. Linux 7.3 takes the namespace that the device is in already, in shared mode too.
	for _, here := range []string{"/proc/self/ns/net", fmt.Sprint(os.Getpid())} {
		if kit.SinceLinux7() {
			done(t, "dev set gvother netns "+here)
		} else {
			refused["dev set gvother netns "+here] = "in shared mode all namespaces have the device"
		}
	}
	for line, why := range refused {
		got := kit.Rdmalink(t, line)
		if rdma := kit.NewerRDMA.Run(t, line); rdma.Code != 1 || got.Code != 1 || !strings.Contains(got.Err, why) {
			t.Errorf("%s: rdma %+v, rdmalink %+v", line, rdma, got)
		}
	}
}

// batchesAsRDMA compares files of commands.
func batchesAsRDMA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "batch")
	const link = "link show gvother/1\n"
	for _, b := range []struct{ flags, text string }{
		{"", link + "# nothing\n\n  \t\nlink # all\nlin\\\nk # all\\\nlink\nres"},
		{"-d", "'link' \"show\" 'gvother/1'\n\"link\"'show'gvother/1\n"},
		{"-jf", link + "link show nosuch/1\n" + link},
		{"", link + "link show nosuch/1\n" + link},
	} {
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		sameAsRDMA(t, b.flags+" -b "+file)
	}
	if got := kit.Rdmalink(t, "-b "+file); got.Code != 1 || !strings.HasPrefix(got.Err, "rdmalink: "+file+`:2: find RDMA device "nosuch": no such RDMA device: `) {
		t.Errorf("%+v", got)
	}
}
