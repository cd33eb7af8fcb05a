package uverbs

import (
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// PathMigState says which of a QP's two paths is in use.
//
// C: enum ibv_mig_state
type PathMigState = driver.PathMigState

// A QP without an alternate path is migrated.
const (
	PathMigMigrated PathMigState = netlinkrdma.PathMigMigrated // on the path that AH names
	PathMigRearm    PathMigState = netlinkrdma.PathMigRearm    // asks the peer to arm, too
	PathMigArmed    PathMigState = netlinkrdma.PathMigArmed    // either side can go over to the alternate path
)
