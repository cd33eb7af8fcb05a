package main

import (
	"errors"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// cause is an error without the object and the device, whose names change.
func cause(err error) string {
	var verb *uverbs.Error
	var op *rdmacm.OpError
	hint := ""
	switch {
	case errors.As(err, &verb):
		err, hint = verb.Err, verb.Hint
	case errors.As(err, &op):
		err, hint = op.Err, op.Hint
	}
	if hint != "" {
		return err.Error() + " (" + hint + ")"
	}
	return err.Error()
}

// result is "done", or why not.
func result(err error) string {
	if err != nil {
		return cause(err)
	}
	return "done"
}

// sentinel is what errors.Is finds in an error whose text has names of this host.
func sentinel(err, want error) string {
	if errors.Is(err, want) {
		return "errors.Is: " + want.Error()
	}
	return err.Error()
}
