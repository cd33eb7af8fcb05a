package deploy

import (
	"bytes"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink-exporter/internal/podresources"
	"github.com/goverbs/goverbs/cmd/rdmalink-exporter/internal/podresources/podrestest"
	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// pods are what kubelets may answer, with the answer that the tests of the exporter have for it.
var pods = []struct {
	theirs *podresourcesv1.PodResources
	ours   []byte
}{
	{&podresourcesv1.PodResources{}, nil},
	{pod("prod", "web-0", plugin("vf", "a", "b"), claim("dra.net", "c")),
		podrestest.Pod("prod", "web-0", [][]byte{podrestest.Plugin("vf", "a", "b")}, podrestest.Claim("dra.net", "c"))},
	{pod("", "", plugin("", ""), claim("", "")), podrestest.Pod("", "", [][]byte{podrestest.Plugin("", "")}, podrestest.Claim("", ""))},
}

func pod(namespace, name string, devices *podresourcesv1.ContainerDevices, claim *podresourcesv1.DynamicResource) *podresourcesv1.PodResources {
	return &podresourcesv1.PodResources{Name: name, Namespace: namespace, Containers: []*podresourcesv1.ContainerResources{{Name: "main", CpuIds: []int64{1, 2},
		Devices: []*podresourcesv1.ContainerDevices{devices}, DynamicResources: []*podresourcesv1.DynamicResource{claim}}}}
}

func plugin(resource string, ids ...string) *podresourcesv1.ContainerDevices {
	return &podresourcesv1.ContainerDevices{ResourceName: resource, DeviceIds: ids,
		Topology: &podresourcesv1.TopologyInfo{Nodes: []*podresourcesv1.NUMANode{{ID: 1}}}}
}

func claim(driver, device string) *podresourcesv1.DynamicResource {
	return &podresourcesv1.DynamicResource{ClaimName: "nic", ClaimNamespace: "prod",
		ClaimResources: []*podresourcesv1.ClaimResource{{DriverName: driver, PoolName: "node", DeviceName: device}}}
}

// TestAnswers compares the answers that the exporter's tests use with those of the API's generated types. It also
// compares the method that they and the exporter call.
func TestAnswers(t *testing.T) {
	for _, p := range pods {
		message, err := proto.MarshalOptions{Deterministic: true}.Marshal(&podresourcesv1.ListPodResourcesResponse{PodResources: []*podresourcesv1.PodResources{p.theirs}})
		if ours := podrestest.Answer(p.ours); err != nil || !bytes.Equal(ours, message) {
			t.Errorf("%v\n%x, want\n%x", err, ours, message)
		}
	}
	if podresourcesv1.PodResourcesLister_List_FullMethodName != podresources.Method {
		t.Errorf("%q", podresources.Method)
	}
}

// FuzzAnswer compares the decoder with the API's generated types.
func FuzzAnswer(f *testing.F) {
	for _, p := range pods {
		f.Add(podrestest.Answer(p.ours))
	}
	for _, pods := range [][]*podresourcesv1.PodResources{nil, {
		{Name: "cpus", Containers: []*podresourcesv1.ContainerResources{{CpuIds: []int64{1, 2}, Memory: []*podresourcesv1.ContainerMemory{{MemoryType: "memory", Size: 1 << 40}}}}},
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
		var ours podresources.Answer
		err := ours.Decode(message)
		if proto.Unmarshal(message, &theirs) != nil {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []podresources.Allocation
		for _, p := range theirs.PodResources {
			for _, c := range p.Containers {
				for _, d := range c.Devices {
					for _, id := range d.DeviceIds {
						want = append(want, podresources.Allocation{Namespace: p.Namespace, Pod: p.Name, Container: c.Name, Resource: d.ResourceName, ID: id})
					}
				}
				for _, d := range c.DynamicResources {
					for _, r := range d.ClaimResources {
						want = append(want, podresources.Allocation{Namespace: p.Namespace, Pod: p.Name, Container: c.Name, Resource: r.DriverName, ID: r.DeviceName})
					}
				}
			}
		}
		if len(want) > podresources.Max {
			return
		}
		counts := make(map[podresources.Allocation]int) // the order of fields is free
		for _, a := range want {
			counts[a]++
		}
		for _, a := range ours.All {
			counts[a]--
		}
		for a, n := range counts {
			if n != 0 {
				t.Fatalf("%+v: %d", a, n)
			}
		}
	})
}
