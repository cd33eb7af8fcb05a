package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// MTU is the encoded payload of a packet.
//
// C: enum ibv_mtu
type MTU = driver.MTU

// The sizes that a path can have.
const (
	MTU256  MTU = driver.MTU256
	MTU512  MTU = driver.MTU512
	MTU1024 MTU = driver.MTU1024
	MTU2048 MTU = driver.MTU2048
	MTU4096 MTU = driver.MTU4096
)
