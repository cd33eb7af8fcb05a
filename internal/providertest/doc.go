// Package providertest has the helpers that the tests of providers share.
//
// A [Pair] is two connected QPs on a model of a device, and a [Wire] carries their messages.
// [Pair.Run] carries out the script that each provider is held to. test/sandbox/script.c is
// the same script in C, which rdma-core's provider carries out on the same model under
// rdmalink sandbox. [Golden] compares what crossed the seam to the device with the recording
// of that.
package providertest
