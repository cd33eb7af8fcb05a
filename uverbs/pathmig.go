package uverbs

import "fmt"

// PathMigState says which of a QP's two paths is in use.
//
// C: enum ibv_mig_state
type PathMigState uint8

// A QP without an alternate path is migrated.
const (
	PathMigrated PathMigState = 0 // on the path that AH names
	PathRearm    PathMigState = 1 // asks the peer to arm, too
	PathArmed    PathMigState = 2 // either side can go over to the alternate path
)

func (s PathMigState) String() string {
	switch s {
	case PathMigrated:
		return "MIGRATED"
	case PathRearm:
		return "REARM"
	case PathArmed:
		return "ARMED"
	}
	return fmt.Sprintf("PathMigState(%d)", uint8(s))
}
