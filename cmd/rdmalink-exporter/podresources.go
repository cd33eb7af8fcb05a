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

	"github.com/goverbs/goverbs/internal/metrics"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
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
	maxAllocations       = 4096
)

// podResources asks the kubelet which devices it has allocated to pods. It asks in the background.
// A scrape uses the last answer, so it never waits for the kubelet.
type podResources struct {
	socket   string
	optional bool // the kubelet is not asked until the socket exists

	mu   sync.Mutex // guards the fields below
	last []allocation
	at   time.Time // the time of the last answer
	err  error     // of the last attempt
}

// allocation is a device that the kubelet has allocated to a container. The kubelet reports neither the
// UID of the pod nor the ID of the container.
type allocation struct {
	namespace, pod, container string
	resource                  string // the resource of a device plugin, or the name of a DRA driver
	id                        string // the device's ID, which the plugin or the driver has chosen
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
		p.last, p.at = a.all, time.Now()
		if a.more > 0 {
			p.err = fmt.Errorf("%d devices of pods, %d are shown", len(a.all)+a.more, len(a.all))
		}
	}
}

// state returns the last answer, which must not be changed, the time of that answer, and the error of
// the last attempt.
func (p *podResources) state() (last []allocation, at time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.at, p.err
}

// list calls List of the kubelet's API.
func (p *podResources) list(ctx context.Context) (*answer, error) {
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
	a := new(answer)
	err = conn.Invoke(ctx, "/v1.PodResourcesLister/List", nil, a, grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(maxAnswer))
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
func (codec) Unmarshal(data []byte, v any) error { return v.(*answer).decode(data) }

// answer is a ListPodResourcesResponse.
type answer struct {
	all  []allocation
	more int // number of allocations beyond the limit
}

func (a *answer) add(one allocation) {
	if len(a.all) == maxAllocations {
		a.more++
		return
	}
	a.all = append(a.all, one)
}

// decode decodes the message. The numbers of fields are those of the API's api.proto. Strings are set
// before other fields are read, because the order of fields is free.
func (a *answer) decode(message []byte) error {
	return fields(message, func(n protowire.Number, v []byte) error {
		if n != 1 {
			return nil
		}
		return a.pod(v)
	})
}

// pod decodes a PodResources.
func (a *answer) pod(message []byte) error {
	var one allocation
	err := fields(message, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			one.pod = string(v)
		case 2:
			one.namespace = string(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fields(message, func(n protowire.Number, v []byte) error {
		if n != 3 {
			return nil
		}
		return a.container(one, v)
	})
}

// container decodes a ContainerResources.
func (a *answer) container(one allocation, message []byte) error {
	err := fields(message, func(n protowire.Number, v []byte) error {
		if n == 1 {
			one.container = string(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fields(message, func(n protowire.Number, v []byte) error {
		switch n {
		case 2:
			return a.devices(one, v)
		case 5:
			return a.claim(one, v)
		}
		return nil
	})
}

// devices decodes a ContainerDevices, the devices of a device plugin.
func (a *answer) devices(one allocation, message []byte) error {
	err := fields(message, func(n protowire.Number, v []byte) error {
		if n == 1 {
			one.resource = string(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fields(message, func(n protowire.Number, v []byte) error {
		if n == 2 {
			one.id = string(v)
			a.add(one)
		}
		return nil
	})
}

// claim decodes a DynamicResource, the devices of a resource claim.
func (a *answer) claim(one allocation, message []byte) error {
	return fields(message, func(n protowire.Number, v []byte) error {
		if n != 4 {
			return nil
		}
		device := one
		err := fields(v, func(n protowire.Number, v []byte) error {
			switch n {
			case 2:
				device.resource = string(v)
			case 4:
				device.id = string(v)
			}
			return nil
		})
		if err == nil {
			a.add(device)
		}
		return err
	})
}

// fields calls f for each field of a message that is a message or a string.
func fields(message []byte, f func(n protowire.Number, v []byte) error) error {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(message)
			if err := f(n, v); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}

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
