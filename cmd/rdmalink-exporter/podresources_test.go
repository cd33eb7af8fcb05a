package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink-exporter/internal/podresources"
	"github.com/goverbs/goverbs/cmd/rdmalink-exporter/internal/podresources/podrestest"
	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kubelet is a kubelet whose answer to List, a ListPodResourcesResponse, is that of a function.
type kubelet func(context.Context) ([]byte, error)

// startKubelet serves the kubelet's API on a Unix socket, until stop is called.
func startKubelet(t *testing.T, k kubelet) (p *podResources, stop func()) {
	t.Helper()
	p = &podResources{socket: filepath.Join(t.TempDir(), "kubelet.sock")}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.Method(stream.Context()); method != podresources.Method {
			return status.Error(codes.Unimplemented, method)
		}
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		message, err := k(stream.Context())
		if err != nil {
			return err
		}
		return stream.SendMsg(message)
	}))
	end := make(chan error, 1)
	go func() { end <- server.Serve(l) }()
	stop = func() {
		server.Stop()
		<-end
	}
	t.Cleanup(func() { server.Stop() })
	return p, stop
}

// bytesCodec leaves messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string                  { return "proto" }
func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// answering returns a kubelet with one answer.
func answering(pods ...[]byte) kubelet {
	return func(context.Context) ([]byte, error) { return podrestest.Answer(pods...), nil }
}

// hardware adds to the machine of the tests what sysfs says of the hardware below its devices.
func hardware(source *metrics.Collector) {
	sys := source.Sys.(fstest.MapFS)
	sys["class/infiniband/mlx5_0/device"] = &fstest.MapFile{Data: []byte("../../../0000:3b:00.2"), Mode: fs.ModeSymlink}
	sys["class/infiniband/siw0/device"] = &fstest.MapFile{Data: []byte("../../../mlx5_core.sf.4"), Mode: fs.ModeSymlink}
}

// podsOf returns the lines of a scrape that podresources adds, and the log of the scrape.
func podsOf(t *testing.T, p *podResources) (lines []string, log string) {
	t.Helper()
	source, _ := machine()
	hardware(source)
	var out bytes.Buffer
	w := httptest.NewRecorder()
	handler(source, &metrics.Watcher{RDMA: source.RDMA}, p, slog.New(slog.NewTextHandler(&out, nil))).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "rdma_device_pod_info{") || strings.HasPrefix(line, "rdma_podresources_") || strings.Contains(line, `part="podresources"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "part=podresources") {
			log += line
		}
	}
	return lines, log
}

// TestPodResources matches the devices of pods with the devices of the machine.
func TestPodResources(t *testing.T) {
	p, _ := startKubelet(t, answering(
		podrestest.Pod("prod", "web-0", [][]byte{podrestest.Plugin("nvidia.com/vf", "0000:3b:00.2", "0000:3b:00.7"), podrestest.Plugin("rdma/shared", "0", "17", "")}),
		podrestest.Pod("prod", "web-1", [][]byte{podrestest.Plugin("nvidia.com/sf", "mlx5_core.sf.4")}),
		podrestest.Pod("test", "dra", nil, podrestest.Claim("dra.net", "pci-0000-3b-00-2"), podrestest.Claim("sriov", "0000-3b-00-2"), podrestest.Claim("gpu", "gpu-0")),
		podrestest.Pod("test", "named", [][]byte{podrestest.Plugin("example.com/rdma", "siw0"), podrestest.Plugin("example.com/net", "eth0")}),
		podrestest.Pod("test\n", "\x1b[2J", [][]byte{podrestest.Plugin(strings.Repeat("x", 1000), "mlx5_0")}),
		podrestest.Field(1, "none"),
	))
	p.ask(t.Context())
	p.at = time.UnixMilli(1500)
	lines, log := podsOf(t, p)
	long := metrics.Printable(strings.Repeat("x", 1000))
	want := []string{
		`rdma_device_pod_info{container="main",device="mlx5_0",id="0000-3b-00-2",namespace="test",pod="dra",resource="sriov"} 1`,
		`rdma_device_pod_info{container="main",device="mlx5_0",id="0000:3b:00.2",namespace="prod",pod="web-0",resource="nvidia.com/vf"} 1`,
		`rdma_device_pod_info{container="main",device="mlx5_0",id="eth0",namespace="test",pod="named",resource="example.com/net"} 1`,
		`rdma_device_pod_info{container="main",device="mlx5_0",id="mlx5_0",namespace="test\\n",pod="\\x1b[2J",resource="` + long + `"} 1`,
		`rdma_device_pod_info{container="main",device="mlx5_0",id="pci-0000-3b-00-2",namespace="test",pod="dra",resource="dra.net"} 1`,
		`rdma_device_pod_info{container="main",device="siw0",id="mlx5_core.sf.4",namespace="prod",pod="web-1",resource="nvidia.com/sf"} 1`,
		`rdma_device_pod_info{container="main",device="siw0",id="siw0",namespace="test",pod="named",resource="example.com/rdma"} 1`,
		`rdma_podresources_last_success_timestamp_seconds 1.5`,
	}
	if !reflect.DeepEqual(lines, want) || log != "" {
		t.Errorf("%s\n%s", strings.Join(lines, "\n"), log)
	}
}

// TestPodResourcesGone checks that the last answer stays when the kubelet is gone, and that the page and the
// log say so. An answer that comes later replaces it.
func TestPodResourcesGone(t *testing.T) {
	p, stop := startKubelet(t, answering(podrestest.Pod("prod", "web-0", [][]byte{podrestest.Plugin("vf", "0000:3b:00.2")})))
	p.optional = true // only until the first answer
	p.ask(t.Context())
	before, log := podsOf(t, p)
	if len(before) != 2 || log != "" {
		t.Fatal(before, log)
	}
	stop()
	for range 2 {
		p.ask(t.Context())
	}
	after, log := podsOf(t, p)
	if want := append(before, `rdma_scrape_errors{device="",part="podresources"} 1`); !reflect.DeepEqual(after, want) {
		t.Errorf("%q", after)
	}
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "no such file") || !strings.Contains(log, p.socket) {
		t.Error(log)
	}
	again, _ := startKubelet(t, answering())
	p.socket = again.socket
	p.ask(t.Context())
	if after, log = podsOf(t, p); len(after) != 1 || log != "" {
		t.Error(after, log)
	}
}

// TestPodResourcesAbsent checks that a socket which does not exist is a failure only if a flag names it.
func TestPodResourcesAbsent(t *testing.T) {
	p := &podResources{socket: filepath.Join(t.TempDir(), "kubelet.sock"), optional: true}
	p.ask(t.Context())
	if lines, log := podsOf(t, p); lines != nil || log != "" {
		t.Error(lines, log)
	}
	p.optional = false
	p.ask(t.Context())
	if lines, log := podsOf(t, p); len(lines) != 1 || !strings.Contains(log, "no such file") {
		t.Error(lines, log)
	}
	ctx, stop := context.WithCancel(t.Context())
	p, _ = startKubelet(t, func(context.Context) ([]byte, error) {
		stop()
		return nil, nil
	})
	p.optional = true
	p.run(ctx, time.Hour) // asks at once
	if ctx.Err() == nil {
		t.Error("run did not ask")
	}
}

// TestPodResourcesRun checks that the kubelet is asked again.
func TestPodResourcesRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := 0
	p, _ := startKubelet(t, func(context.Context) ([]byte, error) {
		if asked++; asked == 3 {
			stop()
		}
		return nil, nil
	})
	p.run(ctx, time.Millisecond)
	if asked < 3 {
		t.Error(asked)
	}
}

// TestPodResourcesStuck checks that a kubelet that does not answer holds up no scrape, and that it
// is given a limited time.
func TestPodResourcesStuck(t *testing.T) {
	asked := make(chan bool, 1)
	p, _ := startKubelet(t, func(ctx context.Context) ([]byte, error) {
		deadline, ok := ctx.Deadline()
		asked <- ok && time.Until(deadline) < podResourcesTimeout+time.Second // which gRPC may round up
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.ask(ctx)
	}()
	if !<-asked {
		t.Error("the call has no deadline, or a late one")
	}
	if lines, log := podsOf(t, p); lines != nil || log != "" {
		t.Error(lines, log)
	}
	stop()
	<-done
	if _, _, err := p.state(); err == nil {
		t.Error("no error")
	}
}

// TestPodResourcesHostile lets the kubelet answer with what no kubelet sends.
func TestPodResourcesHostile(t *testing.T) {
	many := make([]string, podresources.Max+1)
	for i := range many {
		many[i] = fmt.Sprintf("0000:3b:00.2%*d", 0, i)
	}
	for name, test := range map[string]struct {
		list func() ([]byte, error)
		want string
	}{
		"status": {func() ([]byte, error) {
			return nil, status.Error(codes.Internal, "\nlevel=ERROR \x1b[2J")
		}, `\\nlevel=ERROR \\x1b[2J`},
		"long status": {func() ([]byte, error) {
			return nil, status.Error(codes.Internal, strings.Repeat("x", 2*maxAnswerHeader))
		}, "RST_STREAM"},
		"too long": {func() ([]byte, error) {
			return podrestest.Answer(podrestest.Field(1, strings.Repeat("x", maxAnswer))), nil
		}, "ResourceExhausted"},
		"too many": {func() ([]byte, error) {
			return podrestest.Answer(podrestest.Pod("a", "b", [][]byte{podrestest.Plugin("vf", many...)})), nil
		}, "4097 devices of pods, 4096 are shown"},
	} {
		p, _ := startKubelet(t, func(context.Context) ([]byte, error) { return test.list() })
		p.ask(t.Context())
		_, log := podsOf(t, p)
		if strings.Count(log, "\n") != 1 || len(log) > 1000 || !strings.Contains(log, test.want) {
			t.Errorf("%s: %s", name, log)
		}
		if last, _, _ := p.state(); len(last) > podresources.Max {
			t.Error(len(last))
		}
	}
}

// TestPodResourcesNoServer checks that a server that does not speak HTTP/2 is reported.
func TestPodResourcesNoServer(t *testing.T) {
	p := &podResources{socket: filepath.Join(t.TempDir(), "kubelet.sock")}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n")
			c.Close()
		}
	}()
	p.ask(t.Context())
	if lines, log := podsOf(t, p); len(lines) != 1 || strings.Count(log, "\n") != 1 {
		t.Error(lines, log)
	}
}

// TestPodResourcesSeries checks that the number of series has a limit when many devices share their hardware.
func TestPodResourcesSeries(t *testing.T) {
	p := &podResources{at: time.Now()}
	for i := range podresources.Max {
		p.last = append(p.last, podresources.Allocation{Pod: fmt.Sprint(i), ID: "0000:3b:00.2"})
	}
	s := &metrics.Snapshot{Devices: make([]metrics.Device, 3)}
	for i := range s.Devices {
		s.Devices[i].Name, s.Devices[i].Bus = fmt.Sprintf("mlx5_%d", i), "0000:3b:00.2"
	}
	ch := make(chan prometheus.Metric, 4*podresources.Max)
	(&exporter{pods: p}).allocations(&page{ch: ch, seen: make(map[string]bool)}, s)
	if len(ch) != 1+podresources.Max || len(s.Errors) != 1 { // 1: the time of the answer
		t.Errorf("%d samples, errors %v", len(ch), s.Errors)
	}
}
