package fakeverbs

// onDemand tells that the device has on-demand paging.
func (k *Kernel) onDemand() bool { return k.OnDemand || k.limits().ODP.GeneralCaps != 0 }
