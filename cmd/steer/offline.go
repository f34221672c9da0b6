package main

import (
	"strconv"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
	"steerpoint/spec"
)

// checkAlone validates sources without a server. What they name may exist on a server, so nothing is said of that.
func checkAlone(sources []api.Source) error {
	var docs []spec.Resource
	var errs spec.Errors
	for _, s := range sources {
		d, e := spec.Parse(s.File, []byte(s.Content))
		docs = append(docs, d...)
		errs = append(errs, e...)
	}
	more, _ := spec.NewSet(docs).Check(spec.Partial)
	errs = append(errs, more...)
	if len(errs) == 0 {
		return nil
	}
	e := fault.BadInput(api.CodeInvalid, mistakes(len(errs), len(sources)), errs.Error(), "")
	e.Err = errs
	return e
}

// mistakes says how many, in how many files.
func mistakes(n, files int) string {
	s := strconv.Itoa(n) + " mistakes in "
	if n == 1 {
		s = "1 mistake in "
	}
	if files == 1 {
		return s + "1 file"
	}
	return s + strconv.Itoa(files) + " files"
}
