package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

// batch runs the text as a file that is called "file".
func batch(t *testing.T, options, text string) result {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tool, _ := devMachine()
	return tool.runLine(options, &hosttest.Netdevs{})
}

func TestBatch(t *testing.T) {
	const system = "netns shared privileged-qkey off monitor on copy-on-fork on\n"
	const systemJSON = `[{"netns":"shared","privileged-qkey":false,"monitor":true,"copy-on-fork":true}]` + "\n"
	const usage = "\nUsage: rdmalink [OPTIONS] COMMAND (rdmalink -h tells more)\n"
	expected := `": expected one of ` + strings.Join(names(root().sub), ", ") + usage
	for _, test := range []struct {
		name, options, text string
		want                result
	}{
		{"two", "-b file", "link\nsystem\n", result{Out: portText + "\n" + system}},
		{"no line break at the end", "-b file", "link", result{Out: portText + "\n"}},
		{"joined", "-bfile", "link", result{Out: portText + "\n"}},
		{"long", "--batch file", "link", result{Out: portText + "\n"}},
		{"with an equals sign", "--batch=file", "link", result{Out: portText + "\n"}},
		{"nothing", "-b file", "", result{}},
		{"blanks and comments", "-b file", "# first\n\n \t\r\n link # no system\n#link\n", result{Out: portText + "\n"}},
		{"continued", "-b file", "li\\\nnk sh\\\now# \\\nsystem\n", result{Out: portText + "\n" + system}},
		{"quotes", "-b file", "'link' \"show\"'mlx5_0'\n", result{Out: portText + "\n"}},
		{"options before", "-j -b file", "system\nsystem\n", result{Out: systemJSON + systemJSON}},
		{"options of a line", "-b file", "-j system\nsystem\n", result{Out: systemJSON + system}},
		{"changes", "-b file", "dev set siw0 name blue\ndev set blue name siw0\ndev set siw0 name siw0", result{}},
		{"ends", "-b file", "link\n\nfrob\nsystem\n", result{Out: portText + "\n", Code: 2, Err: `rdmalink: file:3: "frob` + expected}},
		{"goes on", "-f -b file", "link\n\\\nfrob\nsystem\n'\n", result{Out: portText + "\n" + system, Code: 1,
			Err: `rdmalink: file:3: "frob` + expected + "rdmalink: file:5: a quote that is not closed\nrdmalink: 2 of the 4 commands in file failed\n"}},
		{"refused", "-b file", "dev delete siw0\nlink", result{Code: 1,
			Err: "rdmalink: file:1: delete sub-device siw0: operation not supported (it is no sub-device; rdma link delete takes siw and rxe away)\n"}},
		{"half a line", "-b file", "link \\\n", result{Code: 1, Err: "rdmalink: file:1: a backslash at the end of the last line\n"}},
		{"batch of batches", "-b file", "-b file\n", result{Code: 2, Err: "rdmalink: file:1: a line of a batch can't be a batch" + usage}},
		{"help", "-b file", "version -h\nlink\n", result{Out: "Usage: rdmalink version\nprint the version\n\nOptions:\n"}},
		{"no file", "-b nosuch", "", result{Code: 1, Err: "rdmalink: open nosuch: no such file or directory\n"}},
		{"directory", "-b .", "", result{Code: 1, Err: "rdmalink: .:1: read .: is a directory\n"}},
		{"no name", "-b", "", result{Code: 2, Err: `rdmalink: "-b": expected -b FILE` + usage}},
		{"command too", "-b file link", "link", result{Code: 2, Err: `rdmalink: "link": -b takes no command, those in file are run` + usage}},
		{"command before", "link -b file", "link", result{Code: 2, Err: `rdmalink: "link": -b takes no command, those in file are run` + "\nUsage: rdmalink link [OPTIONS] COMMAND (rdmalink link -h tells more)\n"}},
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

// TestBatchConverses: each line is answered before the next one comes.
func TestBatchConverses(t *testing.T) {
	ask, answer := io.Pipe()
	defer answer.Close()
	tool, _ := devMachine()
	tool.stdin = ask
	said := make(chan string)
	tool.Stdout, tool.Stderr = sayer(said), &bytes.Buffer{}
	code := make(chan int)
	go func() { code <- tool.run(context.Background(), []string{"-b", "-"}) }()
	for range 2 {
		io.WriteString(answer, "link\n")
		if got := <-said; got != portText+"\n" {
			t.Errorf("%q", got)
		}
	}
	io.WriteString(answer, "link nosuch\n")
	if got := <-code; got != exitUsage || !strings.HasPrefix(tool.Stderr.(*bytes.Buffer).String(), "rdmalink: -:3: ") {
		t.Errorf("%d, %q", got, tool.Stderr)
	}
}

type sayer chan string

func (s sayer) Write(b []byte) (int, error) {
	s <- string(b)
	return len(b), nil
}

// TestBatchInterrupted: a read that never comes back does not hold it.
func TestBatchInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	in, other := io.Pipe()
	defer other.Close()
	tool, _ := devMachine()
	tool.stdin, tool.Stdout, tool.Stderr = in, io.Discard, io.Discard
	code := make(chan int)
	go func() { code <- tool.run(ctx, []string{"-f", "-b", "-"}) }()
	io.WriteString(other, "link\n")
	interrupt()
	if got := <-code; got != exitFailed {
		t.Errorf("exit code %d", got)
	}
}

func FuzzBatchLine(f *testing.F) {
	for _, seed := range []string{"", "dev show", `'a b' "c`, "a'b\t\"\"", `""''x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitLine(line)
		if err != nil {
			return
		}
		for _, w := range words {
			if !strings.Contains(line, w) {
				t.Errorf("%q of %q", w, line)
			}
		}
	})
}
