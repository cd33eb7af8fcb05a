package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

// batch runs the text as a file that is called "file".
func batch(t *testing.T, options, text string) clitest.Result {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tool, _ := clitest.Devices()
	return runLine(tool, options, &hosttest.Netdevs{})
}

const portText = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 1 lmc 2 state INIT physical_state POLLING netdev ib0 "

func TestBatch(t *testing.T) {
	const system = "netns shared privileged-qkey off monitor on copy-on-fork on\n"
	const systemJSON = `[{"netns":"shared","privileged-qkey":false,"monitor":true,"copy-on-fork":true}]` + "\n"
	const usage = "\nUsage: rdmalink [OPTIONS] COMMAND (more: rdmalink -h)\n"
	expected := `": expected one of ` + strings.Join(cli.CommandNames(root().Sub), ", ") + usage
	for _, test := range []struct {
		name, options, text string
		want                clitest.Result
	}{
		{"two", "-b file", "link\nsystem\n", clitest.Result{Out: portText + "\n" + system}},
		{"no line break at the end", "-b file", "link", clitest.Result{Out: portText + "\n"}},
		{"joined", "-bfile", "link", clitest.Result{Out: portText + "\n"}},
		{"long", "--batch file", "link", clitest.Result{Out: portText + "\n"}},
		{"with an equals sign", "--batch=file", "link", clitest.Result{Out: portText + "\n"}},
		{"nothing", "-b file", "", clitest.Result{}},
		{"blanks and comments", "-b file", "# first\n\n \t\r\n link # no system\n#link\n", clitest.Result{Out: portText + "\n"}},
		{"continued", "-b file", "li\\\nnk sh\\\now# \\\nsystem\n", clitest.Result{Out: portText + "\n" + system}},
		{"quotes", "-b file", "'link' \"show\"'mlx5_0'\n", clitest.Result{Out: portText + "\n"}},
		{"options before", "-j -b file", "system\nsystem\n", clitest.Result{Out: systemJSON + systemJSON}},
		{"options of a line", "-b file", "-j system\nsystem\n", clitest.Result{Out: systemJSON + system}},
		{"changes", "-b file", "dev set siw0 name blue\ndev set blue name siw0\ndev set siw0 name siw0", clitest.Result{}},
		{"ends", "-b file", "link\n\nfrob\nsystem\n", clitest.Result{Out: portText + "\n", Code: 2, Err: `rdmalink: file:3: "frob` + expected}},
		{"goes on", "-f -b file", "link\n\\\nfrob\nsystem\n'\n", clitest.Result{Out: portText + "\n" + system, Code: 1,
			Err: `rdmalink: file:3: "frob` + expected + "rdmalink: file:5: a quote that is not closed\nrdmalink: 2 of the 4 commands in file failed\n"}},
		{"refused", "-b file", "dev delete siw0\nlink", clitest.Result{Code: 1,
			Err: "rdmalink: file:1: delete sub-device siw0: operation not supported: it is not a sub-device; rdma link delete deletes siw and rxe devices\n"}},
		{"half a line", "-b file", "link \\\n", clitest.Result{Code: 1, Err: "rdmalink: file:1: a backslash at the end of the last line\n"}},
		{"batch of batches", "-b file", "-b file\n", clitest.Result{Code: 2, Err: "rdmalink: file:1: a line of a batch can't be a batch" + usage}},
		{"help", "-b file", "version -h\nlink\n", clitest.Result{Out: "Usage: rdmalink version\nprint the version\n\nOptions:\n"}},
		{"no file", "-b nosuch", "", clitest.Result{Code: 1, Err: "rdmalink: open nosuch: no such file or directory\n"}},
		{"directory", "-b .", "", clitest.Result{Code: 1, Err: "rdmalink: .:1: read .: is a directory\n"}},
		{"no name", "-b", "", clitest.Result{Code: 2, Err: `rdmalink: "-b": expected -b FILE` + usage}},
		{"command too", "-b file link", "link", clitest.Result{Code: 2, Err: `rdmalink: "link": -b takes no command, it runs those in file` + usage}},
		{"command before", "link -b file", "link", clitest.Result{Code: 2, Err: `rdmalink: "link": -b takes no command, it runs those in file` + "\nUsage: rdmalink link [OPTIONS] COMMAND (more: rdmalink link -h)\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := batch(t, test.options, test.text)
			if test.name == "help" {
				got.Out = strings.SplitAfter(got.Out, "Options:\n")[0]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBatchConverses checks that each line is answered before the next one is sent.
func TestBatchConverses(t *testing.T) {
	ask, answer := io.Pipe()
	defer answer.Close()
	tool, _ := clitest.Devices()
	tool.Stdin = ask
	said := make(chan string)
	tool.Stdout, tool.Stderr = sayer(said), &bytes.Buffer{}
	code := make(chan int)
	go func() { code <- tool.Run(context.Background(), root(), []string{"-b", "-"}) }()
	for range 2 {
		io.WriteString(answer, "link\n")
		if got := <-said; got != portText+"\n" {
			t.Errorf("%q", got)
		}
	}
	io.WriteString(answer, "link nosuch\n")
	if got := <-code; got != cli.ExitUsage || !strings.HasPrefix(tool.Stderr.(*bytes.Buffer).String(), "rdmalink: -:3: ") {
		t.Errorf("%d, %q", got, tool.Stderr)
	}
}

type sayer chan string

func (s sayer) Write(b []byte) (int, error) {
	s <- string(b)
	return len(b), nil
}

// TestBatchInterrupted checks that an interrupt ends a batch whose read never
// returns.
func TestBatchInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	in, other := io.Pipe()
	defer other.Close()
	tool, _ := clitest.Devices()
	tool.Stdin, tool.Stdout, tool.Stderr = in, io.Discard, io.Discard
	code := make(chan int)
	go func() { code <- tool.Run(ctx, root(), []string{"-f", "-b", "-"}) }()
	io.WriteString(other, "link\n")
	interrupt()
	if got := <-code; got != cli.ExitFailed {
		t.Errorf("exit code %d", got)
	}
}
