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

	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet is a kubelet whose answer to List is that of a function.
type kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	list func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error)
}

func (k kubelet) List(ctx context.Context, _ *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return k.list(ctx)
}

// startKubelet serves the kubelet's API on a Unix socket, until stop is called.
func startKubelet(t *testing.T, k kubelet) (p *podResources, stop func()) {
	t.Helper()
	p = &podResources{socket: filepath.Join(t.TempDir(), "kubelet.sock")}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, k)
	end := make(chan error, 1)
	go func() { end <- server.Serve(l) }()
	stop = func() {
		server.Stop()
		<-end
	}
	t.Cleanup(func() { server.Stop() })
	return p, stop
}

// answering returns a kubelet with one answer.
func answering(pods ...*podresourcesv1.PodResources) kubelet {
	return kubelet{list: func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		return &podresourcesv1.ListPodResourcesResponse{PodResources: pods}, nil
	}}
}

// plugin returns the devices of a device plugin.
func plugin(resource string, ids ...string) *podresourcesv1.ContainerDevices {
	return &podresourcesv1.ContainerDevices{ResourceName: resource, DeviceIds: ids,
		Topology: &podresourcesv1.TopologyInfo{Nodes: []*podresourcesv1.NUMANode{{ID: 1}}}}
}

// claim returns a device of a DRA driver.
func claim(driver, device string) *podresourcesv1.DynamicResource {
	return &podresourcesv1.DynamicResource{ClaimName: "nic", ClaimNamespace: "prod",
		ClaimResources: []*podresourcesv1.ClaimResource{{DriverName: driver, PoolName: "node", DeviceName: device}}}
}

// pod returns a pod with one container, main.
func pod(namespace, name string, devices []*podresourcesv1.ContainerDevices, claims ...*podresourcesv1.DynamicResource) *podresourcesv1.PodResources {
	return &podresourcesv1.PodResources{Name: name, Namespace: namespace, Containers: []*podresourcesv1.ContainerResources{
		{Name: "main", CpuIds: []int64{1, 2}, Devices: devices, DynamicResources: claims}}}
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
		pod("prod", "web-0", []*podresourcesv1.ContainerDevices{plugin("nvidia.com/vf", "0000:3b:00.2", "0000:3b:00.7"), plugin("rdma/shared", "0", "17", "")}),
		pod("prod", "web-1", []*podresourcesv1.ContainerDevices{plugin("nvidia.com/sf", "mlx5_core.sf.4")}),
		pod("test", "dra", nil, claim("dra.net", "pci-0000-3b-00-2"), claim("sriov", "0000-3b-00-2"), claim("gpu", "gpu-0")),
		pod("test", "named", []*podresourcesv1.ContainerDevices{plugin("example.com/rdma", "siw0"), plugin("example.com/net", "eth0")}),
		pod("test\n", "\x1b[2J", []*podresourcesv1.ContainerDevices{plugin(strings.Repeat("x", 1000), "mlx5_0")}),
		&podresourcesv1.PodResources{Name: "none", Namespace: "test"},
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
	p, stop := startKubelet(t, answering(pod("prod", "web-0", []*podresourcesv1.ContainerDevices{plugin("vf", "0000:3b:00.2")})))
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
	p, _ = startKubelet(t, kubelet{list: func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		stop()
		return nil, nil
	}})
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
	p, _ := startKubelet(t, kubelet{list: func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		if asked++; asked == 3 {
			stop()
		}
		return nil, nil
	}})
	p.run(ctx, time.Millisecond)
	if asked < 3 {
		t.Error(asked)
	}
}

// TestPodResourcesStuck checks that a kubelet that does not answer holds up no scrape, and that it
// is given a limited time.
func TestPodResourcesStuck(t *testing.T) {
	asked := make(chan bool, 1)
	p, _ := startKubelet(t, kubelet{list: func(ctx context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		deadline, ok := ctx.Deadline()
		asked <- ok && time.Until(deadline) < podResourcesTimeout+time.Second // which gRPC may round up
		<-ctx.Done()
		return nil, ctx.Err()
	}})
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
	many := make([]string, maxAllocations+1)
	for i := range many {
		many[i] = fmt.Sprintf("0000:3b:00.2%*d", 0, i)
	}
	for name, test := range map[string]struct {
		list func() (*podresourcesv1.ListPodResourcesResponse, error)
		want string
	}{
		"status": {func() (*podresourcesv1.ListPodResourcesResponse, error) {
			return nil, status.Error(codes.Internal, "\nlevel=ERROR \x1b[2J")
		}, `\\nlevel=ERROR \\x1b[2J`},
		"long status": {func() (*podresourcesv1.ListPodResourcesResponse, error) {
			return nil, status.Error(codes.Internal, strings.Repeat("x", 2*maxAnswerHeader))
		}, "RST_STREAM"},
		"too long": {func() (*podresourcesv1.ListPodResourcesResponse, error) {
			return &podresourcesv1.ListPodResourcesResponse{PodResources: []*podresourcesv1.PodResources{{Name: strings.Repeat("x", maxAnswer)}}}, nil
		}, "ResourceExhausted"},
		"too many": {func() (*podresourcesv1.ListPodResourcesResponse, error) {
			return &podresourcesv1.ListPodResourcesResponse{PodResources: []*podresourcesv1.PodResources{pod("a", "b", []*podresourcesv1.ContainerDevices{plugin("vf", many...)})}}, nil
		}, "4097 devices of pods, 4096 are shown"},
	} {
		p, _ := startKubelet(t, kubelet{list: func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error) { return test.list() }})
		p.ask(t.Context())
		_, log := podsOf(t, p)
		if strings.Count(log, "\n") != 1 || len(log) > 1000 || !strings.Contains(log, test.want) {
			t.Errorf("%s: %s", name, log)
		}
		if last, _, _ := p.state(); len(last) > maxAllocations {
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

// TestAnswerMemory checks that an answer of empty messages takes no memory.
func TestAnswerMemory(t *testing.T) {
	for name, element := range map[string]string{"pods": "\x0a\x00", "containers": "\x0a\x02\x1a\x00", "devices": "\x0a\x04\x1a\x02\x12\x00", "claims": "\x0a\x06\x1a\x04\x2a\x02\x22\x00"} {
		message := []byte(strings.Repeat(element, 1000))
		a := answer{all: make([]allocation, maxAllocations)}
		if n := testing.AllocsPerRun(1, func() {
			if err := a.decode(message); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzAnswer compares the decoder with the API's generated types.
func FuzzAnswer(f *testing.F) {
	for _, pods := range [][]*podresourcesv1.PodResources{nil, {
		pod("prod", "web-0", []*podresourcesv1.ContainerDevices{plugin("vf", "a", "b"), plugin("", "")}, claim("dra.net", "c"), claim("", "")),
		pod("", "", nil), {Name: "cpus", Containers: []*podresourcesv1.ContainerResources{{CpuIds: []int64{1, 2}, Memory: []*podresourcesv1.ContainerMemory{{MemoryType: "memory", Size: 1 << 40}}}}},
	}} {
		message, err := proto.Marshal(&podresourcesv1.ListPodResourcesResponse{PodResources: pods})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x0b\x0c\x0a\x05\x1a\x03\x12\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var theirs podresourcesv1.ListPodResourcesResponse
		var ours answer
		err := ours.decode(message)
		if proto.Unmarshal(message, &theirs) != nil {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []allocation
		for _, p := range theirs.PodResources {
			for _, c := range p.Containers {
				for _, d := range c.Devices {
					for _, id := range d.DeviceIds {
						want = append(want, allocation{p.Namespace, p.Name, c.Name, d.ResourceName, id})
					}
				}
				for _, d := range c.DynamicResources {
					for _, r := range d.ClaimResources {
						want = append(want, allocation{p.Namespace, p.Name, c.Name, r.DriverName, r.DeviceName})
					}
				}
			}
		}
		if len(want) > maxAllocations {
			return
		}
		counts := make(map[allocation]int) // the order of fields is free
		for _, a := range want {
			counts[a]++
		}
		for _, a := range ours.all {
			counts[a]--
		}
		for a, n := range counts {
			if n != 0 {
				t.Fatalf("%+v: %d", a, n)
			}
		}
	})
}

// TestPodResourcesSeries checks that the number of series has a limit when many devices share their hardware.
func TestPodResourcesSeries(t *testing.T) {
	p := &podResources{at: time.Now()}
	for i := range maxAllocations {
		p.last = append(p.last, allocation{pod: fmt.Sprint(i), id: "0000:3b:00.2"})
	}
	s := &metrics.Snapshot{Devices: make([]metrics.Device, 3)}
	for i := range s.Devices {
		s.Devices[i].Name, s.Devices[i].Bus = fmt.Sprintf("mlx5_%d", i), "0000:3b:00.2"
	}
	ch := make(chan prometheus.Metric, 4*maxAllocations)
	(&exporter{pods: p}).allocations(&page{ch: ch, seen: make(map[string]bool)}, s)
	if len(ch) != 1+maxAllocations || len(s.Errors) != 1 { // 1: the time of the answer
		t.Errorf("%d samples, errors %v", len(ch), s.Errors)
	}
}
