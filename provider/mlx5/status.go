package mlx5

import "github.com/goverbs/goverbs/uverbs/driver"

// statuses maps the device's syndromes. A syndrome that is missing is a general error.
var statuses = [...]driver.Status{
	0x01: driver.StatusLocLenErr,
	0x02: driver.StatusLocQPOpErr,
	0x04: driver.StatusLocProtErr,
	0x05: driver.StatusWRFlushErr,
	0x06: driver.StatusMWBindErr,
	0x10: driver.StatusBadRespErr,
	0x11: driver.StatusLocAccessErr,
	0x12: driver.StatusRemInvReqErr,
	0x13: driver.StatusRemAccessErr,
	0x14: driver.StatusRemOpErr,
	0x15: driver.StatusRetryExcErr,
	0x16: driver.StatusRNRRetryExcErr,
	0x22: driver.StatusRemAbortErr,
}

func statusOf(syndrome uint8) driver.Status {
	if int(syndrome) < len(statuses) && statuses[syndrome] != driver.StatusSuccess {
		return statuses[syndrome]
	}
	return driver.StatusGeneralErr
}
