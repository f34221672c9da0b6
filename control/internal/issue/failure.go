package issue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
)

// DeadOrder is an order that cannot be gone on with: a new one is needed.
type DeadOrder struct{ Err error }

func (e *DeadOrder) Error() string { return e.Err.Error() }
func (e *DeadOrder) Unwrap() error { return e.Err }

// NotOffered is a way to prove a name that the authority does not offer.
type NotOffered struct{ Name, Kind, Offered string }

func (e *NotOffered) Error() string {
	return fmt.Sprintf("the authority does not take %s for %s; it offers %s", e.Kind, e.Name, e.Offered)
}

// Local is what went wrong on this side, and what to do about it.
type Local struct {
	Err error
	Do  string
}

func (e *Local) Error() string { return e.Err.Error() }
func (e *Local) Unwrap() error { return e.Err }

// orderGone tells an order that the authority does not know any more.
func orderGone(err error) error {
	if e, ok := errors.AsType[*acme.Error](err); ok && e.StatusCode == http.StatusNotFound {
		return &DeadOrder{fmt.Errorf("order: %w", err)}
	}
	return fmt.Errorf("order: %w", err)
}

// Failure is an error as a person and the next try need it.
type Failure struct {
	// Reason is one word: unreachable, busy, rate_limited, unproved, refused, account, stopped, local or failed.
	Reason string
	What   string // one line, with the authority's own words
	Do     string // one line
	// After is how long the authority wants not to be asked; 0: it does not say.
	After time.Duration
	// Dead: the order is of no use any more.
	Dead bool
	// Unknown: the authority does not know the account.
	Unknown bool
}

// The reasons of failures.
const (
	Unreachable = "unreachable"
	Busy        = "busy"
	RateLimited = "rate_limited"
	Unproved    = "unproved"
	Refused     = "refused"
	NoAccount   = "account"
	Stopped     = "stopped"
	Here        = "local"
	Failed      = "failed"
)

// maxText bounds what an authority's words may take in a line, in octets.
const maxText = 500

// Explain makes a Failure of an error of an Authority; now dates a Retry-After.
func Explain(err error, now time.Time) Failure {
	f := Failure{Reason: Failed, What: line(err.Error()), Do: "see the words of the authority; it is tried again by itself"}
	_, f.Dead = errors.AsType[*DeadOrder](err)
	var offered *NotOffered
	var local *Local
	switch e := problemOf(err); {
	case errors.Is(err, context.Canceled):
		f.Reason = Stopped
	case errors.As(err, &local):
		f.Reason, f.Do = Here, local.Do
	case errors.As(err, &offered):
		f.Reason, f.Do = Refused, "write another challenge in the Certificate"
	case e != nil:
		f.fromProblem(e, now)
	case isNetwork(err):
		f.Reason, f.Do = Unreachable, "look whether control's machine reaches the directory's URL; it is tried again by itself"
	}
	return f
}

// problemOf is what the authority said; of several names, the first that failed.
func problemOf(err error) *acme.Error {
	if e, ok := errors.AsType[*acme.Error](err); ok {
		return e
	}
	if z, ok := errors.AsType[*acme.AuthorizationError](err); ok {
		for _, one := range z.Errors {
			if e, ok := errors.AsType[*acme.Error](one); ok {
				return e
			}
		}
	}
	if o, ok := errors.AsType[*acme.OrderError](err); ok && o.Problem != nil {
		return o.Problem
	}
	return nil
}

// advice is what to do about a problem type of RFC 8555 section 6.7, by its last part.
var advice = map[string]struct{ reason, do string }{
	"connection":              {Unproved, "the domain must lead to gateways that listen for http on port 80, past every firewall"},
	"dns":                     {Unproved, "look the domain up from outside: its zone must be delegated to these name servers, and the record be there"},
	"tls":                     {Unproved, "the authority was led to https with a certificate it cannot use: answer /.well-known/acme-challenge/ by http"},
	"unauthorized":            {Unproved, "what answers is not ours: the domain leads somewhere else, something in front answers /.well-known/acme-challenge/, or its zone is delegated elsewhere"},
	"incorrectResponse":       {Unproved, "the domain leads somewhere else, or the record at _acme-challenge is another one"},
	"caa":                     {Refused, "the CAA records of the domain do not admit this authority: add it, or order from one that they admit"},
	"rejectedIdentifier":      {Refused, "the authority gives no certificate for this name: take it out, or order from another one"},
	"unsupportedIdentifier":   {Refused, "the authority gives no certificate for this name: take it out, or order from another one"},
	"badPublicKey":            {Refused, "write another keyType"},
	"badCSR":                  {Refused, "write another keyType, or fewer names"},
	"rateLimited":             {RateLimited, "wait: the authority says how long; fewer certificates with more names need fewer orders"},
	"externalAccountRequired": {NoAccount, "the authority takes customers only: write eabKeyID and eabKeyFrom"},
	"accountDoesNotExist":     {NoAccount, "the account is registered anew by itself"},
	"userActionRequired":      {NoAccount, "open the page that the authority names, and agree to its terms"},
	"invalidContact":          {NoAccount, "write another email"},
	"unsupportedContact":      {NoAccount, "write another email"},
	"malformed":               {Refused, "see the words of the authority; it may not hold to RFC 8555"},
	"serverInternal":          {Busy, "the authority has trouble of its own; it is tried again by itself"},
	"badNonce":                {Busy, "the authority takes none of its own nonces; it is tried again by itself"},
	"orderNotReady":           {Busy, "it is tried again by itself"},
}

func (f *Failure) fromProblem(e *acme.Error, now time.Time) {
	kind := e.ProblemType[strings.LastIndexByte(e.ProblemType, ':')+1:]
	if a, ok := advice[kind]; ok {
		f.Reason, f.Do = a.reason, a.do
	} else if e.StatusCode == http.StatusTooManyRequests {
		f.Reason, f.Do = RateLimited, advice["rateLimited"].do
	} else if e.StatusCode >= 500 {
		f.Reason, f.Do = Busy, advice["serverInternal"].do
	}
	f.Unknown = kind == "accountDoesNotExist"
	f.After = retryAfter(e.Header.Get("Retry-After"), now)
	if kind != "" {
		f.What = line(kind + ": " + f.What)
	}
}

// retryAfter reads the field, in seconds or as a date (RFC 9110 section 10.2.3); 0: it says nothing.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n >= 0 {
		return time.Duration(min(n, int(maxWait/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), maxWait)
	}
	return 0
}

// line makes one line of a text, without what a terminal would do something at, and not too long.
func line(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}

func isNetwork(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout)
}
