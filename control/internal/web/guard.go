// Package web is what stands before the API's handlers: who may come in, how often, and how much may be sent. It knows
// nothing of what the handlers do.
package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"steerpoint/control/api"
)

// Guard decides what comes in. The zero value lets nobody in.
type Guard struct {
	Token string
	// Hosts are names the Host header may have, besides IP addresses and localhost.
	Hosts []string
	// Open are paths that need no token; Local are paths that need none from loopback.
	Open, Local []string
	Limit       *Limiter
	// Admit, if there is one, is asked about every token: of whose it is, it notes in r's context who sends the request. known
	// is false for a token of nobody; p refuses one that is known. admin says that it is Token.
	Admit func(r *http.Request, token string, admin bool) (known bool, p *api.Problem)
	// Done is told method, status and duration of every request.
	Done func(method string, status int)
	Log  *slog.Logger
}

// Wrap puts the guard before h.
func (g *Guard) Wrap(h http.Handler) http.Handler {
	want := sha256.Sum256([]byte(g.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler { //nolint:errorlint // the package documents this very value
					panic(v)
				}
				g.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				if rec.status == 0 {
					WriteProblem(rec, &api.Problem{Status: http.StatusInternalServerError, Code: api.CodeInternal, Title: "Internal error", Detail: "the request met a mistake of ours; the log has it"})
				}
			}
			g.Done(r.Method, rec.status)
		}()
		secure(rec.Header())
		if p := g.refuse(r, want); p != nil {
			if p.Status == http.StatusUnauthorized {
				rec.Header().Set("WWW-Authenticate", `Bearer realm="steer"`)
			}
			if p.Status == http.StatusTooManyRequests {
				rec.Header().Set("Retry-After", "1")
			}
			WriteProblem(rec, p)
			return
		}
		h.ServeHTTP(rec, r)
	})
}

// secure sets headers that cost nothing: no page of ours runs scripts, is framed or is kept.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// refuse says why a request does not come in; nil if it does.
func (g *Guard) refuse(r *http.Request, want [sha256.Size]byte) *api.Problem {
	if !g.hostAllowed(r.Host) {
		return &api.Problem{
			Status: http.StatusForbidden, Code: api.CodeForbiddenHost, Title: "Host not served here",
			Detail: fmt.Sprintf("the request names the host %q: use an IP address, localhost, or a name this server was told", r.Host),
		}
	}
	remote := remoteAddr(r)
	if !g.Limit.Allow(remote, time.Now(), 1) {
		return &api.Problem{Status: http.StatusTooManyRequests, Code: api.CodeTooMany, Title: "Too many requests", Detail: "slow down: Retry-After says when"}
	}
	if slices.Contains(g.Open, r.URL.Path) || (remote.IsLoopback() && slices.Contains(g.Local, r.URL.Path)) {
		return nil
	}
	token, ok := bearer(r)
	got := sha256.Sum256([]byte(token))
	admin := ok && g.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
	if ok && g.Admit != nil {
		if known, p := g.Admit(r, token, admin); known {
			return p
		}
	} else if admin {
		return nil
	}
	g.Limit.Allow(remote, time.Now(), 20) // guessing costs
	detail := "this needs the token in <data>/admin.token, or one that an admin made with `steer token create --api`: Authorization: Bearer TOKEN"
	if ok {
		detail = "the token is not this server's, or was revoked: take the one in its <data>/admin.token, or have an admin make one with `steer token create --api`"
	}
	return &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorized, Title: "Not authorized", Detail: detail}
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// hostAllowed keeps out pages that point a name of their own at this address.
func (g *Guard) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.Contains(g.Hosts, name)
}

func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// Problem fills in what every problem has.
func Problem(p *api.Problem) *api.Problem {
	if p.Type == "" {
		p.Type = "about:blank"
	}
	return p
}

// WriteProblem answers with a problem document.
func WriteProblem(w http.ResponseWriter, p *api.Problem) {
	b, err := json.Marshal(Problem(p))
	if err != nil {
		b = []byte(`{"title":"Internal error","status":500,"code":"INTERNAL"}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(b) // the client is gone: nobody to tell
}

// recorder remembers the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Methods finds the methods a path has in a mux whose catch-all pattern is "/".
func Methods(mux *http.ServeMux, r *http.Request) []string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
			out = append(out, m)
			if m == http.MethodGet {
				out = append(out, http.MethodHead) // every GET answers HEAD
			}
		}
	}
	return out
}

// Tokens left after a time at a rate, at most burst.
func refill(left float64, since time.Duration, rate, burst float64) float64 {
	return math.Min(burst, left+since.Seconds()*rate)
}
