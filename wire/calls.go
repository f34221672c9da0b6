package wire

import (
	"net/http"

	"steerpoint/internal/pki"
)

// The roles a call can ask for.
const (
	RoleDNS   = pki.RoleDNS
	RoleProbe = pki.RoleProbe
	RoleEdge  = pki.RoleEdge
)

// Auth is how a caller proves that it may call.
type Auth int

// The ways to prove it. Every way but Token also asks Registry.Admit.
const (
	// Token: the token in the body is all; a client certificate is not looked at.
	Token Auth = iota
	// Certificate: a node's certificate of this cluster that has not ended.
	Certificate
	// CertificateMaybeExpired: the same, or one that ended at most pki.RenewWithin ago.
	CertificateMaybeExpired
)

func (a Auth) String() string {
	switch a {
	case Token:
		return "token"
	case Certificate:
		return "certificate"
	case CertificateMaybeExpired:
		return "certificate, also expired"
	}
	return "nobody"
}

// Call is one entry of the service definition.
type Call struct {
	Name   string // what metrics and logs call it
	Method string
	Path   string
	// Roles are those of which the node needs one; empty: any node.
	Roles []string
	Auth  Auth
	// MaxBody is the most bytes of the body, unpacked; 0: no body.
	MaxBody int64
	// Stream: the answer is frames without end.
	Stream bool

	// serve is the only way to a handler. A handler outside of Calls is reached by nobody.
	serve func(*Hub, *request) (any, error)
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Calls is the service definition: everything a node can ask of control. The server's routes are built from it and
// from nothing else.
var Calls = []Call{
	{
		Name: "join", Method: http.MethodPost, Path: "/v1/join", Auth: Token, MaxBody: 16 * kib,
		serve: (*Hub).join,
	},
	{
		Name: "renew", Method: http.MethodPost, Path: "/v1/renew", Auth: CertificateMaybeExpired, MaxBody: 16 * kib,
		serve: (*Hub).renew,
	},
	{
		Name: "dns", Method: http.MethodGet, Path: "/v1/dns", Roles: []string{RoleDNS}, Auth: Certificate, Stream: true,
		serve: (*Hub).followDNS,
	},
	{
		Name: "probe", Method: http.MethodGet, Path: "/v1/probe", Roles: []string{RoleProbe}, Auth: Certificate, Stream: true,
		serve: (*Hub).followProbe,
	},
	{
		Name: "edge", Method: http.MethodGet, Path: "/v1/edge", Roles: []string{RoleEdge}, Auth: Certificate, Stream: true,
		serve: (*Hub).followEdge,
	},
	{
		Name: "ack", Method: http.MethodPost, Path: "/v1/ack", Roles: []string{RoleDNS, RoleProbe, RoleEdge}, Auth: Certificate, MaxBody: 16 * kib,
		serve: (*Hub).ack,
	},
	{
		Name: "observations", Method: http.MethodPost, Path: "/v1/observations", Roles: []string{RoleProbe}, Auth: Certificate, MaxBody: 2 * mib,
		serve: (*Hub).observations,
	},
	{
		Name: "result", Method: http.MethodPost, Path: "/v1/result", Roles: []string{RoleProbe, RoleEdge}, Auth: Certificate, MaxBody: 64 * kib,
		serve: (*Hub).result,
	},
	{
		Name: "update", Method: http.MethodPost, Path: "/v1/update", Roles: []string{RoleDNS}, Auth: Certificate, MaxBody: 64 * kib,
		serve: (*Hub).update,
	},
	{
		Name: "status", Method: http.MethodPost, Path: "/v1/status", Auth: Certificate, MaxBody: 256 * kib,
		serve: (*Hub).status,
	},
}
