package api

import "time"

// CertificateStatus is a certificate of gateways.
type CertificateStatus struct {
	// Name is that of the Certificate, or auto:DOMAIN for a domain whose service says auto.
	Name   string `json:"name"`
	Source string `json:"source" enum:"acme,secret,files"`
	// Names are the domains it is for; Services those that use it.
	Names    []string `json:"names"`
	Services []string `json:"services"`
	// State is valid, ended, missing (there is none yet) or elsewhere: it is in files of gateways, which tell of it by metrics.
	State    string     `json:"state" enum:"valid,ended,missing,elsewhere"`
	NotAfter *time.Time `json:"notAfter,omitempty"` // when it ends

	// Of those that control orders:
	Authority string     `json:"authority,omitempty"` // host of the authority's directory
	RenewAt   *time.Time `json:"renewAt,omitempty"`
	Ordering  bool       `json:"ordering,omitempty"` // it is worked on now
	Failures  int        `json:"failures,omitempty"` // in a row
	Reason    string     `json:"reason,omitempty"`   // of the last failure, one word
	Error     string     `json:"error,omitempty"`
	Do        string     `json:"do,omitempty"` // what a person can do about it
	NextTry   *time.Time `json:"nextTry,omitempty"`
}

// Where certificates come from.
const (
	CertificateACME   = "acme"
	CertificateSecret = "secret"
	CertificateFiles  = "files"
)

// States of certificates.
const (
	CertificateValid     = "valid"
	CertificateEnded     = "ended"
	CertificateMissing   = "missing"
	CertificateElsewhere = "elsewhere"
)

// OrderRequest has a certificate ordered now.
type OrderRequest struct {
	// Name is that of the Certificate, or auto:DOMAIN.
	Name string `json:"name" minLength:"1" maxLength:"260"`
	// Renew: also one that is valid and not due yet.
	Renew  bool   `json:"renew,omitempty"`
	Reason string `json:"reason,omitempty" maxLength:"500"` // for the audit trail
}
