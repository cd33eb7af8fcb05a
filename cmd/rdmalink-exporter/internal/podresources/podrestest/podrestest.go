// Package podrestest encodes answers of the kubelet's podresources API, for tests. The tests of module deploy
// compare them with those of the API's generated types.
package podrestest

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field returns a field that is a string or a message. An empty string is left out, as proto3 does.
func Field[T string | []byte](n protowire.Number, v T) []byte {
	if _, ok := any(v).(string); ok && len(v) == 0 {
		return nil
	}
	return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), string(v))
}

// number returns a field that is a number.
func number(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}

// Answer returns a ListPodResourcesResponse.
func Answer(pods ...[]byte) (message []byte) {
	for _, pod := range pods {
		message = append(message, Field(1, pod)...)
	}
	return message
}

// Plugin returns a ContainerDevices: devices of a device plugin, on NUMA node 1.
func Plugin(resource string, ids ...string) []byte {
	message := Field(1, resource)
	for _, id := range ids {
		message = protowire.AppendString(protowire.AppendTag(message, 2, protowire.BytesType), id)
	}
	return append(message, Field(3, Field(1, number(1, 1)))...)
}

// Claim returns a DynamicResource with a device of a DRA driver.
func Claim(driver, device string) []byte {
	resource := slices.Concat(Field(2, driver), Field(3, "node"), Field(4, device))
	return slices.Concat(Field(2, "nic"), Field(3, "prod"), Field(4, resource))
}

// Pod returns a PodResources with one container, main, on CPUs 1 and 2.
func Pod(namespace, name string, devices [][]byte, claims ...[]byte) []byte {
	container := Field(1, "main")
	for _, d := range devices {
		container = append(container, Field(2, d)...)
	}
	container = append(container, Field(3, []byte{1, 2})...)
	for _, c := range claims {
		container = append(container, Field(5, c)...)
	}
	return slices.Concat(Field(1, name), Field(2, namespace), Field(3, container))
}
