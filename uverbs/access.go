package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// Access says what may be done with a memory region, or through a QP.
//
// C: enum ibv_access_flags
type Access = driver.Access

// A remote write or atomic needs AccessLocalWrite as well. [driver.Access] documents
// each.
const (
	AccessLocalWrite      Access = driver.AccessLocalWrite
	AccessRemoteWrite     Access = driver.AccessRemoteWrite
	AccessRemoteRead      Access = driver.AccessRemoteRead
	AccessRemoteAtomic    Access = driver.AccessRemoteAtomic
	AccessMWBind          Access = driver.AccessMWBind
	AccessZeroBased       Access = driver.AccessZeroBased
	AccessOnDemand        Access = driver.AccessOnDemand
	AccessHugeTLB         Access = driver.AccessHugeTLB
	AccessFlushGlobal     Access = driver.AccessFlushGlobal
	AccessFlushPersistent Access = driver.AccessFlushPersistent
	AccessRelaxedOrdering Access = driver.AccessRelaxedOrdering
)
