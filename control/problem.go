package control

import (
	"errors"
	"fmt"
	"net/http"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/spec"
)

// problem makes an error of the API.
func problem(status int, code, title, detail string, items ...api.ProblemItem) *api.Problem {
	return &api.Problem{Type: "about:blank", Status: status, Code: code, Title: title, Detail: detail, Errors: items}
}

func notFound(format string, args ...any) *api.Problem {
	return problem(http.StatusNotFound, api.CodeNotFound, "Not found", fmt.Sprintf(format, args...))
}

func badRequest(location, format string, args ...any) *api.Problem {
	message := fmt.Sprintf(format, args...)
	return problem(http.StatusUnprocessableEntity, api.CodeBadRequest, "Bad request", message, api.ProblemItem{Message: message, Location: location})
}

// invalid lists every mistake of resources.
func invalid(errs spec.Errors) *api.Problem {
	items := make([]api.ProblemItem, len(errs))
	for i := range errs {
		items[i] = item(&errs[i].Finding)
	}
	return problem(http.StatusUnprocessableEntity, api.CodeInvalid, "Resources are not valid",
		fmt.Sprintf("%d mistake(s); nothing was changed", len(errs)), items...)
}

func item(f *spec.Finding) api.ProblemItem {
	loc := f.File
	if f.Line > 0 {
		loc = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	message := f.Problem
	if f.Value != "" {
		message = f.Value + " " + message
	}
	if f.Path != "" {
		message = f.Path + ": " + message
	}
	if f.Name != "" {
		message = string(f.Kind) + " " + f.Name + ": " + message
	}
	if f.Allowed != "" {
		message += "; allowed: " + f.Allowed
	}
	if f.Suggest != "" {
		message += "; did you mean " + f.Suggest + "?"
	}
	return api.ProblemItem{
		Code: f.Code, Message: message, Location: loc, File: f.File, Line: f.Line, Column: f.Column, Field: f.Path,
		Value: f.Value, Allowed: f.Allowed,
	}
}

// storeProblem turns an error of the store into one of the API.
func storeProblem(err error) *api.Problem {
	switch {
	case errors.Is(err, store.ErrConflict):
		return problem(http.StatusConflict, api.CodeConflict, "Written in between", "somebody else wrote resources at the same time; nothing was changed: look again and repeat")
	case errors.Is(err, store.ErrFull):
		return problem(http.StatusInsufficientStorage, api.CodeStoreFull, "Store is full", err.Error()+"; nothing was changed. Room is made by itself, from the history and the audit trail: repeat in some seconds. If it stays full, something writes more than this store is for")
	case errors.Is(err, store.ErrTooLarge):
		return problem(http.StatusRequestEntityTooLarge, api.CodeTooLarge, "Too much for one write", err.Error()+"; nothing was changed: apply in parts")
	}
	if errors.Is(err, store.ErrNotWritten) {
		return problem(http.StatusServiceUnavailable, api.CodeStoreUnavailable, "Store is not available",
			err.Error()+". Name servers answer on by the last decisions; `steer status` says what to do")
	}
	return problem(http.StatusServiceUnavailable, api.CodeStoreUnavailable, "Store takes no writes",
		err.Error()+". It is not known whether the change was written: look before you repeat. Name servers answer on by the last decisions")
}

// asProblem gives any error a shape; one that is none of ours is our mistake.
func asProblem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrTooLarge) {
		return storeProblem(err)
	}
	if errors.Is(err, errHistory) {
		return problem(http.StatusServiceUnavailable, api.CodeNoHistory, "History is not available",
			err.Error()+". Answers and switching go on; `steer status` says what to do")
	}
	if errors.Is(err, errStopping) {
		return problem(http.StatusServiceUnavailable, api.CodeNotReady, "Stopping", "this server is stopping")
	}
	return problem(http.StatusInternalServerError, api.CodeInternal, "Internal error", err.Error())
}
