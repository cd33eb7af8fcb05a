package main

import (
	"errors"

	"github.com/goverbs/goverbs/verbs"
)

// cause returns the text of an error without object and device, whose names vary.
func cause(err error) string {
	var e *verbs.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Hint != "" {
		return e.Err.Error() + " (" + e.Hint + ")"
	}
	return e.Err.Error()
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
