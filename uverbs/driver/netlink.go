package driver

import "github.com/goverbs/goverbs/netlinkrdma"

// Names that netlink has too. Their values are package netlinkrdma's.
type (
	GUID         = netlinkrdma.GUID
	QPType       = netlinkrdma.QPType
	QPState      = netlinkrdma.QPState
	PathMigState = netlinkrdma.PathMigState
)
