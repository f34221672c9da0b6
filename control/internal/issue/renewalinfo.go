package issue

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Window is when an authority wants a certificate to be renewed (RFC 9773), such as before it revokes it.
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// At is a time in it, chosen by chance once, so that not everybody comes at its beginning.
	At time.Time `json:"at"`
	// Again is when to ask again.
	Again time.Time `json:"again"`
	// Why is a page that says why, if the authority names one.
	Why string `json:"why,omitempty"`
}

// ErrNoRenewalInfo is an authority that says nothing about renewal.
var ErrNoRenewalInfo = errors.New("the authority says nothing about renewal")

const (
	// maxRenewalInfo bounds what is read of an answer, in octets.
	maxRenewalInfo = 64 << 10
	// askedAgain is when renewal information is asked for again unless the authority says it; the bounds are those of RFC 9773
	// section 4.3.2.
	askedAgain              = 6 * time.Hour
	leastAgain, longestWait = time.Minute, 24 * time.Hour
)

// Renewal asks when a certificate should be renewed. before is the window of the last time, whose choice stays as long as the
// window does; nil: there is none.
func (a *Authority) Renewal(ctx context.Context, leaf *x509.Certificate, before *Window, now time.Time) (*Window, error) {
	base, err := a.renewalURL(ctx)
	if err != nil {
		return nil, err
	}
	id, err := certID(leaf)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Window struct{ Start, End time.Time } `json:"suggestedWindow"`
		Why    string                         `json:"explanationURL"`
	}
	header, err := a.getJSON(ctx, strings.TrimSuffix(base, "/")+"/"+id, &answer)
	if err != nil {
		return nil, err
	}
	w := &Window{Start: answer.Window.Start, End: answer.Window.End, Why: line(answer.Why)}
	if w.Start.IsZero() || !w.End.After(w.Start) {
		return nil, errors.New("renewal information: its window has no length")
	}
	again := retryAfter(header.Get("Retry-After"), now)
	if again == 0 {
		again = askedAgain
	}
	w.Again = now.Add(min(max(again, leastAgain), longestWait))
	if before != nil && before.Start.Equal(w.Start) && before.End.Equal(w.End) {
		w.At = before.At
		return w, nil
	}
	w.At = w.Start.Add(rand.N(w.End.Sub(w.Start)))
	return w, nil
}

// certID names a certificate (RFC 9773 section 4.1).
func certID(leaf *x509.Certificate) (string, error) {
	if len(leaf.AuthorityKeyId) == 0 || leaf.SerialNumber == nil || leaf.SerialNumber.Sign() <= 0 {
		return "", errors.New("renewal information: the certificate does not name its authority's key")
	}
	serial := leaf.SerialNumber.Bytes()
	if serial[0] >= 0x80 { // as DER has a positive number
		serial = append([]byte{0}, serial...)
	}
	e := base64.RawURLEncoding
	return e.EncodeToString(leaf.AuthorityKeyId) + "." + e.EncodeToString(serial), nil
}

// renewalURL is where to ask, which the directory says.
func (a *Authority) renewalURL(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.looked {
		var d struct {
			RenewalInfo string `json:"renewalInfo"`
		}
		if _, err := a.getJSON(ctx, a.cfg.Directory, &d); err != nil {
			return "", err
		}
		a.renewalInfo, a.looked = d.RenewalInfo, true
	}
	if !strings.HasPrefix(a.renewalInfo, "https://") {
		return "", ErrNoRenewalInfo
	}
	return a.renewalInfo, nil
}

func (a *Authority) getJSON(ctx context.Context, url string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("renewal information: %w", err)
	}
	req.Header.Set("User-Agent", a.cfg.Agent)
	res, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("renewal information: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxRenewalInfo))
	if err != nil {
		return nil, fmt.Errorf("renewal information: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("renewal information: the authority answers %s", res.Status)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return nil, fmt.Errorf("renewal information: %w", err)
	}
	return res.Header, nil
}
