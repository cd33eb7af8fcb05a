package uverbs

import (
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// A hint is given for the error that it explains and for no other.
func TestHintsFit(t *testing.T) {
	const types = "windows are of type 1 or 2"
	for _, c := range []struct {
		err  syscall.Errno
		typ  verbs.MWType
		want string
	}{
		{syscall.EINVAL, 3, types}, {syscall.EINVAL, 0, types},
		{syscall.EINVAL, verbs.MWType1, createHint(syscall.EINVAL)}, {syscall.EINVAL, verbs.MWType2, createHint(syscall.EINVAL)},
		{syscall.ENOMEM, 3, createHint(syscall.ENOMEM)},
	} {
		if got := mwHint(c.err, c.typ); got != c.want {
			t.Errorf("%v, window of type %d: %q, want %q", c.err, c.typ, got, c.want)
		}
	}
	for _, c := range []struct {
		err  syscall.Errno
		mask verbs.QPAttrMask
		want string
	}{
		{syscall.ENETUNREACH, verbs.QPAttrState | verbs.QPAttrAV, noWayHint}, {syscall.ETIMEDOUT, verbs.QPAttrAltPath, noWayHint},
		{syscall.ENETUNREACH, verbs.QPAttrState, ""}, {syscall.EIO, verbs.QPAttrAV, ""},
	} {
		if got := new(QP).explain(c.err, &verbs.QPAttr{}, c.mask); got != c.want {
			t.Errorf("%v, attributes %#x: %q, want %q", c.err, c.mask, got, c.want)
		}
	}
}
