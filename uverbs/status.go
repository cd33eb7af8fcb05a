package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// Status is how a work request ended. Every value but StatusSuccess is an error.
//
// C: enum ibv_wc_status
type Status = driver.Status

// The statuses of the verbs specification.
const (
	StatusSuccess        Status = driver.StatusSuccess
	StatusLocLenErr      Status = driver.StatusLocLenErr
	StatusLocQPOpErr     Status = driver.StatusLocQPOpErr
	StatusLocEECOpErr    Status = driver.StatusLocEECOpErr
	StatusLocProtErr     Status = driver.StatusLocProtErr
	StatusWRFlushErr     Status = driver.StatusWRFlushErr
	StatusMWBindErr      Status = driver.StatusMWBindErr
	StatusBadRespErr     Status = driver.StatusBadRespErr
	StatusLocAccessErr   Status = driver.StatusLocAccessErr
	StatusRemInvReqErr   Status = driver.StatusRemInvReqErr
	StatusRemAccessErr   Status = driver.StatusRemAccessErr
	StatusRemOpErr       Status = driver.StatusRemOpErr
	StatusRetryExcErr    Status = driver.StatusRetryExcErr
	StatusRNRRetryExcErr Status = driver.StatusRNRRetryExcErr
	StatusRemAbortErr    Status = driver.StatusRemAbortErr
	StatusFatalErr       Status = driver.StatusFatalErr
	StatusRespTimeoutErr Status = driver.StatusRespTimeoutErr
	StatusGeneralErr     Status = driver.StatusGeneralErr
)
