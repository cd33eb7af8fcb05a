// Package driver is what a provider implements, and what it is given. A provider is
// the user-space half of one kernel driver's queues; package uverbs has what is the
// same for all of them. Programs use package uverbs, under whose names most types of
// this package are known too.
package driver
