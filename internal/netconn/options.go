package netconn

import (
	"cmp"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// With retryCount and ackTimeout a connection survives an outage of up to seven seconds. librdmacm's and Valkey's count
// is 7, but rxe treats 7 as no limit, so no connection would end if the network failed.
const (
	retryCount = 6
	ackTimeout = time.Second
)

// WithDefaults returns options in which the defaults of the byte streams replace zeros.
func WithDefaults(o rdmacm.TransportOptions) rdmacm.TransportOptions {
	o.AckTimeout = cmp.Or(o.AckTimeout, ackTimeout)
	o.RetryCount = cmp.Or(o.RetryCount, retryCount)
	return o
}
