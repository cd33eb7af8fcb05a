// Package podresources decodes answers of the kubelet's podresources API.
package podresources

import "google.golang.org/protobuf/encoding/protowire"

// Max is the number of allocations that an Answer keeps.
const Max = 4096

// Method is the method of the API that is called. The request has no fields.
const Method = "/v1.PodResourcesLister/List"

// Allocation is a device that the kubelet has allocated to a container. The kubelet reports neither the
// UID of the pod nor the ID of the container.
type Allocation struct {
	Namespace, Pod, Container string
	Resource                  string // the resource of a device plugin, or the name of a DRA driver
	ID                        string // the device's ID, which the plugin or the driver has chosen
}

// Answer is a ListPodResourcesResponse.
type Answer struct {
	All  []Allocation
	More int // number of allocations beyond Max
}

func (a *Answer) add(one Allocation) {
	if len(a.All) == Max {
		a.More++
		return
	}
	a.All = append(a.All, one)
}

// Decode decodes the message. The numbers of fields are those of the API's api.proto. Strings are set
// before other fields are read, because the order of fields is free.
func (a *Answer) Decode(message []byte) error {
	return fields(message, func(n protowire.Number, v []byte) error {
		if n != 1 {
			return nil
		}
		return a.pod(v)
	})
}

// pod decodes a PodResources.
func (a *Answer) pod(message []byte) error {
	var one Allocation
	err := fields(message, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			one.Pod = string(v)
		case 2:
			one.Namespace = string(v)
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
func (a *Answer) container(one Allocation, message []byte) error {
	err := fields(message, func(n protowire.Number, v []byte) error {
		if n == 1 {
			one.Container = string(v)
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
func (a *Answer) devices(one Allocation, message []byte) error {
	err := fields(message, func(n protowire.Number, v []byte) error {
		if n == 1 {
			one.Resource = string(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fields(message, func(n protowire.Number, v []byte) error {
		if n == 2 {
			one.ID = string(v)
			a.add(one)
		}
		return nil
	})
}

// claim decodes a DynamicResource, the devices of a resource claim.
func (a *Answer) claim(one Allocation, message []byte) error {
	return fields(message, func(n protowire.Number, v []byte) error {
		if n != 4 {
			return nil
		}
		device := one
		err := fields(v, func(n protowire.Number, v []byte) error {
			switch n {
			case 2:
				device.Resource = string(v)
			case 4:
				device.ID = string(v)
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
