package edge

import "steerpoint/snapshot"

// challengePath is where a certificate authority asks (RFC 8555 section 8.3).
const challengePath = "/.well-known/acme-challenge/"

// challenges are the answers to a certificate authority, by host and token.
type challenges map[challenge][]byte

type challenge struct{ host, token string }

func challengesOf(e *snapshot.Edge) challenges {
	if len(e.Challenges) == 0 {
		return nil
	}
	out := challenges{}
	for _, c := range e.Challenges {
		out[challenge{c.Host, c.Token}] = []byte(c.Value)
	}
	return out
}

// answer answers a certificate authority before routes, redirects and policies: it comes from anywhere, by plain HTTP, and asks
// for a domain that may have no route there. What it was not told to ask for goes on to the routes: an origin may prove
// domains for itself.
func (c challenges) answer(a *Asked, p *Plan) bool {
	if len(c) == 0 || len(a.Path) < len(challengePath) || string(a.Path[:len(challengePath)]) != challengePath {
		return false
	}
	value, ok := c[challenge{string(a.Host), string(a.Path[len(challengePath):])}]
	if !ok {
		return false
	}
	p.Status, p.Reason, p.Body, p.ContentType = 200, "acme_challenge", value, "application/octet-stream"
	return true
}
