package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink-exporter/internal/podresources"
	"github.com/goverbs/goverbs/internal/metrics"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// kubeletSocket is the path at which the kubelet serves its podresources API.
const kubeletSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// Limits of the exchange with the kubelet.
const (
	podResourcesInterval = 30 * time.Second
	podResourcesTimeout  = 10 * time.Second
	maxAnswer            = 4 << 20 // bytes
	maxAnswerHeader      = 64 << 10
	answerWindow         = 64 << 10 // bytes that the kubelet may send ahead
)

// podResources asks the kubelet which devices it has allocated to pods. It asks in the background.
// A scrape uses the last answer, so it never waits for the kubelet.
type podResources struct {
	socket   string
	optional bool // the kubelet is not asked until the socket exists

	mu   sync.Mutex // guards the fields below
	last []podresources.Allocation
	at   time.Time // the time of the last answer
	err  error     // of the last attempt
}

// run asks the kubelet at once and then at each interval, until ctx is done.
func (p *podResources) run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		p.ask(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks the kubelet once. If that fails, it keeps the last answer.
func (p *podResources) ask(ctx context.Context) {
	if p.optional {
		_, err := os.Stat(p.socket)
		if _, at, _ := p.state(); at.IsZero() && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			return
		}
	}
	a, err := p.list(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if err == nil {
		p.last, p.at = a.All, time.Now()
		if a.More > 0 {
			p.err = fmt.Errorf("%d devices of pods, %d are shown", len(a.All)+a.More, len(a.All))
		}
	}
}

// state returns the last answer, which must not be changed, the time of that answer, and the error of
// the last attempt.
func (p *podResources) state() (last []podresources.Allocation, at time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.at, p.err
}

// list calls List of the kubelet's API.
func (p *podResources) list(ctx context.Context) (*podresources.Answer, error) {
	ctx, stop := context.WithTimeout(ctx, podResourcesTimeout)
	defer stop()
	conn, err := grpc.NewClient("passthrough:///kubelet", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
		}),
		// A fixed window keeps gRPC from enlarging it.
		grpc.WithStaticStreamWindowSize(answerWindow), grpc.WithStaticConnWindowSize(answerWindow),
		grpc.WithMaxHeaderListSize(maxAnswerHeader), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithDisableRetry())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	a := new(podresources.Answer)
	err = conn.Invoke(ctx, podresources.Method, nil, a, grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(maxAnswer))
	return a, err
}

// codec decodes the kubelet's answer without the API's generated types. With those, an answer of 4 MB
// that consists of empty messages takes 276 MB, twice the limit of the DaemonSet.
type codec struct{}

// Name implements [encoding.Codec].
func (codec) Name() string { return "proto" }

// Marshal implements [encoding.Codec]. The request has no fields.
func (codec) Marshal(any) ([]byte, error) { return nil, nil }

// Unmarshal implements [encoding.Codec].
func (codec) Unmarshal(data []byte, v any) error { return v.(*podresources.Answer).Decode(data) }

// deviceKey returns the form of a device's name that is compared: DRA drivers write a PCI address such as
// 0000:8a:00.0 as 0000-8a-00-0 or pci-0000-8a-00-0.
func deviceKey(name string) string {
	return strings.TrimPrefix(strings.NewReplacer(":", "-", ".", "-").Replace(name), "pci-")
}

// deviceNames returns the names of RDMA devices by the keys of the names that plugins and drivers may use
// as IDs: that of the RDMA device, of its hardware, and of its network devices.
func deviceNames(devices []metrics.Device) map[string][]string {
	all := make(map[string][]string)
	for i := range devices {
		d := &devices[i]
		keys := map[string]bool{deviceKey(d.Name): true, deviceKey(d.Bus): true}
		for _, p := range d.Ports {
			keys[deviceKey(p.NetdevName)] = true
		}
		delete(keys, "")
		for key := range keys {
			all[key] = append(all[key], d.Name)
		}
	}
	return all
}
