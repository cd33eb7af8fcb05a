package deploy

import (
	"bytes"
	"fmt"
	"go/version"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// image holds what the tests need of the Dockerfile.
type image struct {
	builder    string   // the image with Go
	build      string   // the shell command that builds the program
	from       string   // the program's path in the image with Go
	to         string   // the program's path in the image
	entrypoint []string // the command line of the image
}

// readImage parses the Dockerfile with BuildKit's parser. It fails for anything that BuildKit warns of, and for
// instructions that it does not expect.
func readImage(t *testing.T) (one image) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range file.Warnings {
		t.Error(w.Short)
	}
	stages, args, err := instructions.Parse(file.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, _ []parser.Range) { t.Errorf("%s: %s", rule, message) },
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 || len(args) != 0 || stages[1].BaseName != "gcr.io/distroless/static-debian12:nonroot" {
		t.Fatalf("%+v", stages)
	}
	one.builder = stages[0].BaseName
	for _, c := range stages[0].Commands {
		switch c := c.(type) {
		case *instructions.WorkdirCommand:
		case *instructions.CopyCommand:
			if c.From != "" || !reflect.DeepEqual(c.SourcePaths, []string{"."}) {
				t.Errorf("%+v", c)
			}
		case *instructions.RunCommand:
			if one.build != "" || !c.PrependShell || len(c.CmdLine) != 1 {
				t.Fatalf("%+v", c)
			}
			one.build = c.CmdLine[0]
		default:
			t.Errorf("%s: %+v", c.Name(), c)
		}
	}
	var user string
	var ports []string
	for _, c := range stages[1].Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			if c.From != stages[0].Name || len(c.SourcePaths) != 1 || one.to != "" {
				t.Fatalf("%+v", c)
			}
			one.from, one.to = c.SourcePaths[0], c.DestPath
		case *instructions.UserCommand:
			user = c.User
		case *instructions.ExposeCommand:
			ports = append(ports, c.Ports...)
		case *instructions.EntrypointCommand:
			if c.PrependShell { // the image has no shell
				t.Error(c)
			}
			one.entrypoint = c.CmdLine
		default:
			t.Errorf("%s: %+v", c.Name(), c)
		}
	}
	if user != "nonroot:nonroot" || !reflect.DeepEqual(ports, []string{constant(t, "defaultAddress")[1:]}) {
		t.Errorf("the user is %q, the ports are %q", user, ports)
	}
	return one
}

// TestImage builds the program with the command of the Dockerfile, and runs the entry point, as the user
// of the image, in a directory that has no other file. It checks that the image with Go is new enough.
func TestImage(t *testing.T) {
	one := readImage(t)
	for _, module := range []string{"../go.mod", "../../../go.mod"} {
		text, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		least := regexp.MustCompile(`(?m)^go (.*)$`).FindSubmatch(text)[1]
		tag, ok := strings.CutPrefix(one.builder, "golang:")
		if !ok || version.Compare(version.Lang("go"+tag), version.Lang("go"+string(least))) < 0 {
			t.Errorf("%s cannot build %s, which needs Go %s", one.builder, module, least)
		}
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	output := " -o " + one.from + " "
	if strings.Count(one.build, output) != 1 {
		t.Fatalf("%q does not write %s", one.build, one.from)
	}
	program := filepath.Join(root, path.Clean("/"+one.to))
	build := exec.Command("sh", "-c", strings.Replace(one.build, output, " -o "+program+" ", 1))
	build.Dir, build.Env = "../../..", append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=1") // the build command sets its own variables
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel doesn't give this port to others soon
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var stderr bytes.Buffer
	c := &exec.Cmd{Path: one.entrypoint[0], Args: append(one.entrypoint, "-web.listen-address", address), Dir: "/", Env: []string{}, Stderr: &stderr}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532} // nonroot
	} else { // only a user namespace allows chroot
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- c.Wait() }()
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := <-end; err != nil {
			t.Errorf("%v\n%s", err, &stderr)
		}
	}()
	for {
		r, err := http.Get("http://" + address + "/metrics")
		if err == nil {
			text, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || r.StatusCode != http.StatusOK || !regexp.MustCompile(`(?m)^rdma_up [01]$`).Match(text) {
				t.Errorf("%v %s\n%s", err, r.Status, text)
			}
			return
		}
		select {
		case err := <-end:
			end <- nil
			t.Fatal(fmt.Errorf("%w\n%s", err, &stderr))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
