package driver

import "github.com/goverbs/goverbs/verbs"

// ExtPoller is a CQ that fills ext[i] beside wcs[i]; ext is as long as wcs. A CQ that
// is made with an Ext must be one.
type ExtPoller interface {
	PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error)
}
