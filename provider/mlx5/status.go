package mlx5

import "github.com/goverbs/goverbs/verbs"

// statuses maps the device's syndromes. Other syndromes become StatusGeneralErr.
var statuses = [...]verbs.Status{
	0x01: verbs.StatusLocLenErr,
	0x02: verbs.StatusLocQPOpErr,
	0x04: verbs.StatusLocProtErr,
	0x05: verbs.StatusWRFlushErr,
	0x06: verbs.StatusMWBindErr,
	0x10: verbs.StatusBadRespErr,
	0x11: verbs.StatusLocAccessErr,
	0x12: verbs.StatusRemInvReqErr,
	0x13: verbs.StatusRemAccessErr,
	0x14: verbs.StatusRemOpErr,
	0x15: verbs.StatusRetryExcErr,
	0x16: verbs.StatusRNRRetryExcErr,
	0x22: verbs.StatusRemAbortErr,
}

func statusOf(syndrome uint8) verbs.Status {
	if int(syndrome) < len(statuses) && statuses[syndrome] != verbs.StatusSuccess {
		return statuses[syndrome]
	}
	return verbs.StatusGeneralErr
}
