package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/test/rig"
)

// TestMain also implements the command, and the process between the supervisor and the command.
func TestMain(m *testing.M) {
	if os.Getenv(stage) != "" {
		err := between(os.Args[3:])
		if code := cli.ExitCode(0); err != nil && !errors.As(err, &code) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	if file := os.Getenv(errorFile); file != "" {
		os.Exit(command(file))
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// errorFile is the environment variable with the name of the file for the error of a process that
// becomes the command.
const errorFile = "GOVERBS_SANDBOX_ERROR"

// command runs the words of the command line in a sandbox.
func command(file string) int {
	os.Unsetenv(errorFile)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Run(ctx, cli.Output{Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:])
	var code cli.ExitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	if err := os.WriteFile(file, []byte(err.Error()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// guard is how long a command may take, on however busy a machine. Then it gets SIGTERM, and a
// minute later SIGKILL, which ends all that it traces too.
const guard = 20 * time.Minute

// inside runs a command in a sandbox. It returns the output on both streams, and the error of Run. The
// sandbox is a separate process, because a supervisor ends all children of its process, including
// those of parallel tests.
func inside(t *testing.T, options []string, words ...string) (string, error) {
	t.Helper()
	need(t, words[0])
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], slices.Concat(options, []string{"--"}, words)...)
	c.Stdout, c.Stderr = out, out
	c.Env = append(os.Environ(), errorFile+"="+filepath.Join(dir, "error"))
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	err = c.Run()
	text, failed := os.ReadFile(out.Name())
	if failed != nil {
		t.Fatal(failed)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		err = cli.ExitCode(exit.ExitCode())
		if reason, _ := os.ReadFile(filepath.Join(dir, "error")); len(reason) > 0 {
			err = errors.New(string(reason))
		}
	}
	return string(text), err
}

// long skips a test of many seconds outside make sandbox, which is a row of make test, and otherwise
// runs it in parallel, because it mostly waits.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") == "" {
		t.Skip("make sandbox runs it")
	}
	t.Parallel()
}

// TestHelp runs the examples of the help text whose programs are there.
func TestHelp(t *testing.T) {
	long(t)
	for line := range strings.Lines(Details()) {
		line, isExample := strings.CutPrefix(strings.TrimSpace(line), "$ rdmalink sandbox ")
		others := regexp.MustCompile(`\b(CMD|KEY|net\.topo|diff)\b`) // need something of the reader's
		if !isExample || others.MatchString(line) || strings.Contains(line, "fi_pingpong") && exec.Command("which", "fi_pingpong").Run() != nil {
			continue
		}
		c := exec.Command("sh", "-c", os.Args[0]+" "+line)
		c.Env = append(os.Environ(), errorFile+"="+filepath.Join(t.TempDir(), "error"))
		if out, err := c.CombinedOutput(); err != nil || bytes.Contains(out, []byte("100% packet loss")) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// need wants a program.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, program)
	}
}

func needFile(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		missing(t, path)
	}
}

// missing skips a test, but in CI, where everything is, fails it.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what, "is not installed: make sandbox installs it")
	}
	t.Skip(what, "is not installed")
}

// core is a version of rdma-core, with the variables by which programs, compilers and Python find it. The
// installed one needs none.
type core struct {
	env   []string
	tests string // the directory with the tests of the Python modules
	table string // the results of these tests
}

// isNewest reports whether it is not the installed one.
func (c core) isNewest() bool { return len(c.env) > 0 }

// onCores runs a test with the programs and libraries of the installed rdma-core, which is Debian
// 12's, and with those of the newest.
func onCores(t *testing.T, test func(t *testing.T, c core)) {
	t.Helper()
	t.Run("installed", func(t *testing.T) { test(t, core{tests: peerTests, table: peerTable}) })
	t.Run("newest", func(t *testing.T) {
		newest, err := rig.NewestRDMACore()
		if err != nil {
			missing(t, "the newest rdma-core")
		}
		test(t, core{newest.Env(), newest.Tests(), newestPeerTable})
	})
}

// inside is inside with the programs of this version.
func (c core) inside(t *testing.T, options []string, words ...string) (string, error) {
	t.Helper()
	need(t, words[0])
	if c.isNewest() {
		words = slices.Concat([]string{"env"}, c.env, words)
	}
	out, err := inside(t, options, words...)
	for range 2 { // perftest gives up if the clock of a busy machine seems to vary
		if err == nil || !strings.Contains(out, "Correlation coefficient") {
			break
		}
		out, err = inside(t, options, words...)
	}
	return out, err
}

// script makes a client retry until there is a server, as long as the server may still start. If the
// server fails, the shell ends, which ends the sandbox and a client that still waits.
func script(server, client string) string {
	return fmt.Sprintf("(%s || kill $$) & until %s; do kill -0 $! || exit 1; done; wait $!", server, client)
}

// freePort returns a TCP port without a listener. No two tests get the same one, and it is outside the
// range of ephemeral ports.
func freePort(t *testing.T) string {
	t.Helper()
	for range lastPort - firstPort {
		port := strconv.Itoa(firstPort + int(nextPort.Add(1))%(lastPort-firstPort))
		if l, err := net.Listen("tcp", "localhost:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("all ports are taken")
	return ""
}

const firstPort, lastPort = 10000, 32768

var nextPort = func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(lastPort - firstPort)) // other processes run tests, too
	return &n
}()

// TestDevinfoOnCores checks that C's program finds the device by netlink, and opens and queries it.
func TestDevinfoOnCores(t *testing.T) { onCores(t, devinfo) }

func devinfo(t *testing.T, c core) {
	for kind, want := range map[string][]string{
		"rxe":        {"hca_id:\trxe0", "transport:\t\t\tInfiniBand (0)", "max_qp_wr:\t\t\t1048576", "PORT_ACTIVE", "::ffff:198.51.100.1, RoCE v2"},
		"erdma":      {"hca_id:\terdma0", "transport:\t\t\tiWARP (1)", "vendor_id:\t\t\t0x1ded", "PORT_ACTIVE", "atomic_cap:\t\t\tATOMIC_GLOB (2)"},
		"erdma-old":  {"hca_id:\terdma0", "transport:\t\t\tiWARP (1)", "vendor_id:\t\t\t0x1ded", "PORT_ACTIVE", "atomic_cap:\t\t\tATOMIC_NONE (0)"},
		"erdma-roce": {"hca_id:\terdma0", "transport:\t\t\tInfiniBand (0)", "vendor_id:\t\t\t0x1ded", "PORT_ACTIVE", "max_pkeys:\t\t\t1", "::ffff:198.51.100.1, RoCE v2"},
		"mlx5":       {"hca_id:\tmlx5_0", "transport:\t\t\tInfiniBand (0)", "vendor_id:\t\t\t0x02c9", "PORT_ACTIVE", "::ffff:198.51.100.1, RoCE v2"},
		"mlx5-old":   {"hca_id:\tmlx5_0", "transport:\t\t\tInfiniBand (0)", "vendor_id:\t\t\t0x02c9", "PORT_ACTIVE", "::ffff:198.51.100.1, RoCE v2"},
		"mlx5-ib":    {"hca_id:\tmlx5_0", "transport:\t\t\tInfiniBand (0)", "vendor_id:\t\t\t0x02c9", "PORT_ACTIVE", "link_layer:\t\tInfiniBand"},
		"siw":        {"hca_id:\tsiw0", "transport:\t\t\tiWARP (1)", "max_cqe:\t\t\t3276800", "PORT_ACTIVE"},
		"efa":        {"hca_id:\tefa_0", "transport:\t\t\tunspecified (4)", "vendor_part_id:\t\t\t61345", "PORT_ACTIVE", "max_qp_wr:\t\t\t4096"},
		"efa-old":    {"hca_id:\tefa_0", "transport:\t\t\tunspecified (4)", "vendor_part_id:\t\t\t61344", "PORT_ACTIVE"},
	} {
		out, err := c.inside(t, []string{"-d", kind}, "ibv_devinfo", "-v")
		if err != nil {
			t.Error(err, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: nothing about %q in\n%s", kind, w, out)
			}
		}
	}
}

// TestPingpongOnCores runs rc, uc, ud and srq, with events and polling. With -c both ends check the data.
func TestPingpongOnCores(t *testing.T) {
	long(t)
	all := []string{"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"}
	onCores(t, func(t *testing.T, c core) {
		for kind, programs := range map[string][]string{"rxe": all, "mlx5": all, "mlx5-old": all, "erdma-roce": {"ibv_rc_pingpong"}, "efa": {"ibv_ud_pingpong"}, "efa-old": {"ibv_ud_pingpong"}} {
			for _, program := range programs {
				for _, flags := range []string{"-e -n 200", "-n 20"} {
					t.Run(kind+program+flags, func(t *testing.T) { t.Parallel(); pingpong(t, c, kind, program+" "+flags) })
				}
			}
		}
	})
}

// TestShortMessagesOnCores checks that an mlx5 device puts short messages into completions, of 64 bytes or of
// 128, from which libmlx5 has to copy them. The device leaves the receives unchanged.
func TestShortMessagesOnCores(t *testing.T) {
	long(t)
	onCores(t, func(t *testing.T, c core) {
		for _, sizes := range []string{"64 -s 1", "64 -s 32", "64 -s 33", "128 -s 32", "128 -s 64", "128 -s 65"} {
			cqe, size, _ := strings.Cut(sizes, " ")
			for _, program := range []string{"ibv_rc_pingpong", "ibv_srq_pingpong"} {
				pingpong(t, c, "mlx5", "env MLX5_CQE_SIZE="+cqe+" "+program+" -e -n 20 "+size)
			}
		}
	})
}

// TestInfiniBandOnCores checks addressing by LIDs, with and without a GRH.
func TestInfiniBandOnCores(t *testing.T) {
	long(t)
	onCores(t, infiniBand)
}

func infiniBand(t *testing.T, c core) {
	t.Parallel()
	own := rdmalink(t)
	for _, line := range []string{"rc", "ud", "ud -g 0", "srq"} {
		program, flags, _ := strings.Cut(line, " ")
		need(t, "ibv_"+program+"_pingpong")
		flags = " -c -e -n 20 -p " + freePort(t) + " " + flags
		theirs, ours := "ibv_"+program+"_pingpong"+flags, own+" pingpong "+program+flags
		for _, ends := range [][2]string{{theirs, theirs}, {ours, theirs}, {theirs, ours}} {
			out, err := c.inside(t, []string{"-d", "mlx5-ib"}, "sh", "-c", script(ends[0], ends[1]+" localhost"))
			if err != nil || strings.Contains(out, "invalid data") || strings.Count(out, " iters in ") != 2 {
				t.Errorf("%s, %s: %v\n%s", ends[0], ends[1], err, out)
			}
		}
	}
	one := "ibv_xsrq_pingpong -n 20 -p " + freePort(t)
	if out, err := c.inside(t, []string{"-d", "mlx5-ib"}, "sh", "-c", script(one, one+" localhost")); err != nil || strings.Count(out, "success") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestXRCOnCores checks receives that the QPs of several peers share, with the numbers of SRQs in requests.
func TestXRCOnCores(t *testing.T) {
	long(t)
	onCores(t, xrc)
}

func xrc(t *testing.T, c core) {
	t.Parallel()
	need(t, "ibv_xsrq_pingpong")
	for _, kind := range []string{"mlx5", "mlx5-old"} {
		for _, flags := range []string{"-n 20", "-e -n 20 -s 20"} {
			one := "ibv_xsrq_pingpong -g 1 " + flags + " -p " + freePort(t)
			out, err := c.inside(t, []string{"-d", kind}, "sh", "-c", script(one, one+" localhost"))
			if err != nil || strings.Count(out, "success") != 2 {
				t.Errorf("%s: %v\n%s", one, err, out)
			}
		}
	}
}

// TestXRCProgramsOnCores runs librdmacm's programs that connect XRC, and ours, in both roles.
func TestXRCProgramsOnCores(t *testing.T) {
	long(t)
	onCores(t, xrcPrograms)
}

func xrcPrograms(t *testing.T, c core) {
	t.Parallel()
	need(t, "rdma_xserver")
	rdmalink(t)
	own := filepath.Join(built, "cmtest") + " "
	for _, kind := range []string{"mlx5", "mlx5-ib"} {
		for _, ends := range [][2]string{{"", ""}, {own, ""}, {"", own}, {own, own}} {
			one := "rdma_x%s -c x -p 7472"
			out, err := c.inside(t, []string{"-d", kind}, "sh", "-c", script(ends[0]+fmt.Sprintf(one, "server"), ends[1]+fmt.Sprintf(one, "client")+" -s 198.51.100.1"))
			if err != nil {
				t.Errorf("%s, %q: %v\n%s", kind, ends, err, out)
			}
		}
	}
}

// pingpong runs both ends of one of the programs.
func pingpong(t *testing.T, c core, kind, line string) {
	t.Helper()
	need(t, strings.Fields(line)[0])
	gid := 1
	if !slices.Contains(connectable, kind) {
		gid = 0 // the only one
	}
	one := fmt.Sprintf("%s -g %d -c -p %s", line, gid, freePort(t))
	out, err := c.inside(t, []string{"-d", kind}, "sh", "-c", script(one, one+" localhost"))
	if err != nil || strings.Contains(out, "invalid data") || strings.Count(out, " iters in ") != 2 {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

// connectable has the kinds that rdma_cm supports.
var connectable = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return strings.HasPrefix(kind, "efa") })

// TestRpingOnCores runs rping on both transports, with the server on all addresses and with two hosts.
func TestRpingOnCores(t *testing.T) {
	long(t)
	need(t, "rping")
	onCores(t, func(t *testing.T, c core) {
		for _, kind := range connectable {
			for _, host := range []string{"1", "2"} {
				t.Run(kind+host, func(t *testing.T) {
					t.Parallel()
					out, err := c.inside(t, []string{"-d", kind, "-n", "2"}, "sh", "-c", rpings(t, "rping -s", "env "+hostVariable+"="+host+" rping -c -a 198.51.100.1"))
					if err != nil || len(pinged.FindAllString(out, -1)) != 2 {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
		}
	})
}

// rpings runs both ends of rping until each has printed its last ping, and prints these two lines. At
// its end rping of rdma-core 65 may wait for ever for an event that it has thrown away: that of an id
// that one thread destroys between another's poll and its rdma_get_cm_event.
//
// A driver for iWARP refuses a connect without a listener at once, and rping then waits for ever for a
// completion. So the client starts when the server listens.
func rpings(t *testing.T, server, client string) string {
	t.Helper()
	listens := "until " + rdmalink(t) + " resource show cm_id state LISTEN | grep -q .; do kill -0 $! || exit 1; done; "
	return "pipe=$(mktemp -u); mkfifo $pipe; (" + script("stdbuf -oL "+server+" -v -C 3", listens+"stdbuf -oL "+client+" -v -C 3") +
		") > $pipe & exec 9< $pipe; rm $pipe; exec grep -m 2 ' data: rdma-ping-2: ' <&9"
}

// pinged matches the last lines of both ends.
var pinged = regexp.MustCompile(`(?m)^(server |)ping data: rdma-ping-2: CDEF`)

// tries is how often perftest may meet its own race.
const tries = 10

// perftest runs both ends. With -R, a client that connects before its server listens is rejected, or on siw
// refused by rdma_connect, and, up to version 4.5, crashes. Both ends then start again.
//
// Over iWARP the client of ib_send_bw needs a credit for the last of an even number of messages. With
// -e, and with all earlier sends completed, it does not check for one: it waits for an event that
// never comes. With an odd number its server posts one more receive, so it needs no credit.
func perftest(t *testing.T, c core, kind, server, client string) (out string, err error) {
	for range tries {
		flags := " -F -n 99 -p " + freePort(t)
		if out, err = c.inside(t, []string{"-d", kind}, "sh", "-c", perftestScript(server+flags, client+flags+" 127.0.0.1")); !strings.Contains(out, "RDMA_CM_EVENT_REJECTED") && !strings.Contains(out, "Connection refused") {
			break
		}
	}
	return out, err
}

// perftestScript is script, but ends with a client that crashed.
func perftestScript(server, client string) string {
	return fmt.Sprintf("(%s || kill $$) & until %s; do [ $? -lt 128 ] && kill -0 $! || exit 1; done; wait $!", server, client)
}

// TestPerftestOnCores runs sends, writes, reads and atomics, with polling and with events; on siw and eRDMA
// through rdma_cm. Latencies on mlx5 only poll: with -e perftest takes the next event for that of its
// own send (perftest#127).
func TestPerftestOnCores(t *testing.T) {
	long(t)
	onCores(t, perftests)
}

func perftests(t *testing.T, c core) {
	for kind, lines := range map[string][]string{
		"rxe": {"ib_send_bw -e -s 4096 -x 1", "ib_send_lat -e -s 64 -x 1", "ib_write_bw -s 65536 -x 1", "ib_read_lat -e -s 1024 -x 1",
			"ib_atomic_lat -e -x 1", "ib_write_bw -R -s 1024 -x 1"},
		"mlx5": {"ib_send_bw -e -s 4096 -x 1", "ib_send_bw -c UD -s 1024 -x 1", "ib_send_bw -c UC -s 1024 -x 1", "ib_send_bw --use-srq -s 512 -x 1", "ib_send_lat -s 64 -x 1",
			"ib_write_bw -q 8 -s 512 -x 1", "ib_write_lat -c UC -s 64 -x 1", "ib_read_bw -s 4096 -x 1", "ib_read_lat -s 1024 -x 1", "ib_atomic_bw -x 1", "ib_atomic_lat -x 1",
			"ib_write_bw -c DC -q 4 -s 512 -x 1", "ib_write_lat -c DC -s 64 -x 1", "ib_read_bw -c DC -s 4096 -x 1", "ib_send_bw -c DC -s 512 -x 1", "ib_send_lat -c DC -s 64 -x 1", "ib_atomic_bw -c DC -x 1"},
		"mlx5-old":   {"ib_send_bw -e -s 4096 -x 1", "ib_send_bw --use-srq -s 512 -x 1", "ib_write_bw -q 24 -s 512 -x 1", "ib_atomic_bw -x 1", "ib_send_bw -c DC -s 512 -x 1"},
		"mlx5-ib":    {"ib_send_bw -e -s 4096", "ib_send_bw -c UD -s 1024", "ib_write_bw -s 512", "ib_read_lat -s 1024", "ib_atomic_bw", "ib_write_bw -c DC -s 512"},
		"siw":        {"ib_send_bw -R -e -x 0", "ib_write_bw -R -s 65536 -x 0", "ib_read_lat -R -s 1024 -x 0"},
		"erdma":      {"ib_send_bw -R -x 0", "ib_send_bw -R -e -x 0", "ib_write_bw -R -s 65536 -x 0", "ib_read_lat -R -s 1024 -x 0", "ib_atomic_lat -R -x 0"},
		"erdma-old":  {"ib_send_bw -R -e -x 0", "ib_write_bw -R -q 4 -s 65536 -x 0"},
		"erdma-roce": {"ib_send_bw -e -s 4096 -x 1", "ib_write_bw -q 4 -s 65536 -x 1", "ib_read_lat -s 1024 -x 1", "ib_write_bw -R -s 1024 -x 1"},
		"efa":        {"ib_send_bw -c SRD -s 8192 -x 0", "ib_send_lat -c SRD -s 32 -x 0", "ib_read_bw -c SRD -q 4 -s 65536 -x 0", "ib_send_bw -c UD -Q 1 -s 1024 -x 0"},
		"efa-old":    {"ib_send_bw -c SRD -q 4 -s 512 -x 0", "ib_read_lat -c SRD -s 1024 -x 0"},
	} {
		for _, line := range lines {
			t.Run(kind+line, func(t *testing.T) {
				t.Parallel()
				need(t, strings.Fields(line)[0])
				if out, err := perftest(t, c, kind, line, line); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
