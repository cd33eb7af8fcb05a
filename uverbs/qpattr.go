package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// QPAttr is the state of a QP, as far as a mask says.
//
// C: struct ibv_qp_attr
type QPAttr = driver.QPAttr

// QPAttrMask says which fields of a QPAttr count.
//
// C: enum ibv_qp_attr_mask
type QPAttrMask = driver.QPAttrMask

// One bit an attribute.
const (
	QPAttrState           QPAttrMask = driver.QPAttrState
	QPAttrCurState        QPAttrMask = driver.QPAttrCurState
	QPAttrEnSQDAsync      QPAttrMask = driver.QPAttrEnSQDAsync
	QPAttrAccess          QPAttrMask = driver.QPAttrAccess
	QPAttrPKeyIndex       QPAttrMask = driver.QPAttrPKeyIndex
	QPAttrPort            QPAttrMask = driver.QPAttrPort
	QPAttrQKey            QPAttrMask = driver.QPAttrQKey
	QPAttrAV              QPAttrMask = driver.QPAttrAV
	QPAttrPathMTU         QPAttrMask = driver.QPAttrPathMTU
	QPAttrTimeout         QPAttrMask = driver.QPAttrTimeout
	QPAttrRetryCnt        QPAttrMask = driver.QPAttrRetryCnt
	QPAttrRNRRetry        QPAttrMask = driver.QPAttrRNRRetry
	QPAttrRQPSN           QPAttrMask = driver.QPAttrRQPSN
	QPAttrMaxQPRDAtomic   QPAttrMask = driver.QPAttrMaxQPRDAtomic
	QPAttrAltPath         QPAttrMask = driver.QPAttrAltPath
	QPAttrMinRNRTimer     QPAttrMask = driver.QPAttrMinRNRTimer
	QPAttrSQPSN           QPAttrMask = driver.QPAttrSQPSN
	QPAttrMaxDestRDAtomic QPAttrMask = driver.QPAttrMaxDestRDAtomic
	QPAttrPathMigState    QPAttrMask = driver.QPAttrPathMigState
	QPAttrCap             QPAttrMask = driver.QPAttrCap
	QPAttrDestQPN         QPAttrMask = driver.QPAttrDestQPN
	QPAttrRateLimit       QPAttrMask = driver.QPAttrRateLimit
)

// QPCap is the capacity of a QP.
//
// C: struct ibv_qp_cap
type QPCap = driver.QPCap
