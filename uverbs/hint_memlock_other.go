//go:build !linux

package uverbs

import "github.com/goverbs/goverbs/verbs"

func mrHint(error, verbs.Access, int) string { return "" }
