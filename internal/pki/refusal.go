package pki

import (
	"errors"
	"net/http"
)

// The codes of refusals. They are stable: programs branch on them, and each has a page in the help.
const (
	TokenUnknown   = "TOKEN_UNKNOWN"   // no such token, or its secret is not the one on record
	TokenUsed      = "TOKEN_USED"      // it made a node already
	TokenExpired   = "TOKEN_EXPIRED"   // its time is over
	TokenMalformed = "TOKEN_MALFORMED" // not the text of a token
	NodeExists     = "NODE_EXISTS"     // a node of that name joined before
	NodeUnknown    = "NODE_UNKNOWN"    // the certificate is good, but control has no such node
	NodeRevoked    = "NODE_REVOKED"    // the operator revoked the node
	RoleRefused    = "ROLE_REFUSED"    // the call is not for a node with these roles
	CertMissing    = "CERT_MISSING"    // the call needs a client certificate
	CertUntrusted  = "CERT_UNTRUSTED"  // of another authority, or not the certificate of a node
	CertExpired    = "CERT_EXPIRED"    // by control's clock
	CertTooOld     = "CERT_TOO_OLD"    // expired for longer than a renewal allows
	CallUnknown    = "CALL_UNKNOWN"    // nothing in the service definition
	BodyTooLarge   = "BODY_TOO_LARGE"  // more bytes than the call takes
	BadRequest     = "BAD_REQUEST"     // not what the call takes
	Busy           = "BUSY"            // too much at once, or control cannot do it now; later it may
)

// Refusal says why a call was refused. It travels as JSON and is the same error on both ends.
type Refusal struct {
	Code   string `json:"code"`
	What   string `json:"what"`         // one sentence: what is so
	Do     string `json:"do,omitempty"` // one sentence: what to do about it
	Status int    `json:"status"`       // of the HTTP answer
}

// statuses are the HTTP statuses of the codes; 500 of one that is not listed.
var statuses = map[string]int{
	TokenUnknown: http.StatusForbidden, TokenUsed: http.StatusForbidden, TokenExpired: http.StatusForbidden,
	TokenMalformed: http.StatusBadRequest,
	NodeExists:     http.StatusConflict, NodeUnknown: http.StatusForbidden, NodeRevoked: http.StatusForbidden,
	RoleRefused: http.StatusForbidden,
	CertMissing: http.StatusUnauthorized, CertUntrusted: http.StatusUnauthorized, CertExpired: http.StatusUnauthorized,
	CertTooOld:  http.StatusForbidden,
	CallUnknown: http.StatusNotFound, BodyTooLarge: http.StatusRequestEntityTooLarge, BadRequest: http.StatusBadRequest,
	Busy: http.StatusServiceUnavailable,
}

// Refuse is a refusal with the status of its code. what and do are sentences for people; do may be empty.
func Refuse(code, what, do string) *Refusal {
	status, ok := statuses[code]
	if !ok {
		status = http.StatusInternalServerError
	}
	return &Refusal{Code: code, What: what, Do: do, Status: status}
}

// Error is code, what and do in one line.
func (r *Refusal) Error() string {
	text := r.Code + ": " + r.What
	if r.Do != "" {
		text += "; " + r.Do
	}
	return text
}

// Is makes errors.Is(err, &Refusal{Code: c}) ask for the code alone.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Code == r.Code
}

// Lasting reports whether asking again without anybody doing something is of no use.
func (r *Refusal) Lasting() bool {
	switch r.Code {
	case Busy, CertExpired: // the one passes; the other is healed by a renewal
		return false
	}
	return r.Status < http.StatusInternalServerError
}

// CodeOf is the code of the refusal in err, "" if there is none.
func CodeOf(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Code
	}
	return ""
}
