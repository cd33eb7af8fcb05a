package main

import (
	"errors"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// cause returns the text of an error without object and device, whose names vary.
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

// result returns "done" or the cause of the error.
func result(err error) string {
	if err != nil {
		return cause(err)
	}
	return "done"
}

// sentinel returns the name of the error that err wraps, for errors whose text contains names of this host.
func sentinel(err, want error) string {
	if errors.Is(err, want) {
		return "errors.Is: " + want.Error()
	}
	return err.Error()
}
