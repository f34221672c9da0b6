package api

import "time"

// Roles of those who call the API. Each may do what the one before it may.
const (
	RoleViewer   = "viewer"   // reads
	RoleOperator = "operator" // forces, freezes, drains, probes, and writes Services and Overrides
	RoleAdmin    = "admin"    // everything
)

// APITokenRequest makes a token of the API.
type APITokenRequest struct {
	// Name stands in the audit trail for who wrote with the token.
	Name string `json:"name" minLength:"1" maxLength:"63"`
	Role string `json:"role" enum:"viewer,operator,admin"`
	// Services limits the token to these; none: it is for every service. Not for the role admin.
	Services []string `json:"services,omitempty" maxItems:"100"`
	For      string   `json:"for,omitempty" doc:"Go duration until it ends, from 1m to 87600h; empty: until it is revoked"`
}

// APITokenView is what is known of a token of the API. The secret is not: only its hash is stored.
type APITokenView struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Role     string     `json:"role" enum:"viewer,operator,admin"`
	Services []string   `json:"services,omitempty"` // absent: every service
	State    string     `json:"state" enum:"open,expired"`
	Created  time.Time  `json:"created"`
	Actor    string     `json:"actor,omitempty"`    // who made it
	Expires  *time.Time `json:"expires,omitempty"`  // absent: it does not end by itself
	LastUsed *time.Time `json:"lastUsed,omitempty"` // absent: never; after a restart it may be an hour too old
}

// APITokenCreated is the answer to an APITokenRequest. Token is shown this once.
type APITokenCreated struct {
	Token string       `json:"token"`
	View  APITokenView `json:"view"`
}

// APITokenList is every token of the API, by name.
type APITokenList struct {
	Tokens []APITokenView `json:"tokens"`
}
