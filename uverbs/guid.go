package uverbs

import "github.com/goverbs/goverbs/netlinkrdma"

// GUID is a 64-bit global identifier of a device; it prints as
// 0c76:80ff:febf:e77b.
type GUID = netlinkrdma.GUID
