package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestWatchDevice: what a device reports is printed, and before that what it did
// before it was heard; it is closed when it goes, or when it fails, after which it is
// opened again.
func TestWatchDevice(t *testing.T) { synctest.Test(t, testWatchDevice) }

func testWatchDevice(t *testing.T) {
	tool, fake, _ := machine()
	fake.System.Monitor = true
	kernel := &lockedKernel{Kernel: fake}
	tool.RDMA.Kernel = kernel
	first, second := fakeverbs.New(uint32(verbs.DriverSIW)), fakeverbs.New(uint32(verbs.DriverSIW))
	first.InBubble, second.InBubble = true, true
	opened, open := make(chan struct{}, 2), hosttest.Opens(first, second)
	tool.Open = func(name string) (*uverbs.Device, error) {
		kernel.mu.Lock()
		fake.Ports[0].State = verbs.PortDown
		kernel.mu.Unlock()
		defer func() { opened <- struct{}{} }()
		return open(name)
	}
	r, out := io.Pipe()
	var stderr bytes.Buffer
	tool.Stdout, tool.Stderr = out, &stderr
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- tool.run(ctx, []string{"watch"}) }()
	lines := bufio.NewScanner(r)
	wants := func(want string) {
		t.Helper()
		if _, got, _ := strings.Cut(scan(lines), " "); strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	wants("look PRESENT siw0/1 state ACTIVE netdev dummy0")
	<-opened
	wants("look PORT_ERR siw0/1 state DOWN")
	for _, test := range []struct {
		typ  uverbs.EventType
		want string
	}{
		{uverbs.EventPortActive, "device PORT_ACTIVE siw0/1"}, {uverbs.EventPortErr, "device PORT_ERR siw0/1"},
		{uverbs.EventGIDChange, "device GID_CHANGE siw0/1"}, {uverbs.EventDeviceFatal, "device DEVICE_FATAL siw0"},
		{20, "device DEVICE_SPEED_CHANGE siw0"}, {27, "device EventType(27) siw0"},
	} {
		first.Async(1, uint32(test.typ))
		wants(test.want)
	}
	first.AsyncBytes([]byte{1, 2, 3}) // no event: the device is not to be trusted any more
	<-opened
	if !first.Closed() {
		t.Error("it is opened twice")
	}
	second.Async(1, uint32(uverbs.EventLIDChange))
	wants("device LID_CHANGE siw0/1")
	kernel.mu.Lock()
	fake.Devices, fake.Ports = nil, nil
	kernel.mu.Unlock()
	wants("look UNREGISTER siw0")
	time.Sleep(lookEvery)
	if !second.Closed() { // the kernel waits for that
		t.Error("it is open after it has gone")
	}
	stop()
	if got := <-code; got != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, %s", got, &stderr)
	}
	for _, k := range []*fakeverbs.Kernel{first, second} {
		if leaks := k.Leaks(); len(leaks) > 0 {
			t.Errorf("left %v", leaks)
		}
	}
}

func scan(lines *bufio.Scanner) string {
	lines.Scan()
	return lines.Text()
}
