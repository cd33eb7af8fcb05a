package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// onDemand tells that the device has on-demand paging.
func (k *Kernel) onDemand() bool { return k.OnDemand || k.limits().odp.GeneralCaps != 0 }

// mlx5ODP is what mlx5 devices do with regions whose pages are not pinned.
var mlx5ODP = func() (c abi.IbUverbsOdpCaps) {
	const all = abi.IB_ODP_SUPPORT_SEND | abi.IB_ODP_SUPPORT_RECV | abi.IB_ODP_SUPPORT_WRITE | abi.IB_ODP_SUPPORT_READ |
		abi.IB_ODP_SUPPORT_ATOMIC | abi.IB_ODP_SUPPORT_SRQ_RECV
	c.GeneralCaps = abi.IB_ODP_SUPPORT | abi.IB_ODP_SUPPORT_IMPLICIT
	c.PerTransportCaps.RcOdpCaps, c.PerTransportCaps.UdOdpCaps = all, abi.IB_ODP_SUPPORT_SEND
	return c
}()
