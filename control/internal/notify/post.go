package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steerpoint/internal/guard"
)

const (
	postTimeout = 5 * time.Second
	maxAnswer   = 16 << 10 // bytes read of an answer; what follows is not read
	maxShown    = 300      // bytes of an answer shown to people
	// maxRetryAfter bounds what a server may ask for.
	maxRetryAfter = time.Hour
)

// errRefused marks an answer that is about the message itself: sending it again changes nothing.
var errRefused = errors.New("the message was refused")

// newClient makes the HTTP client of one target: it follows nothing, and connects to no address the guard refuses,
// whatever a name resolves to at that moment. It takes no proxy from the environment: behind one, the guard would see
// nothing.
func newClient(allowLocal bool, roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Timeout: postTimeout}
	if !allowLocal {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("address %s: %w", address, err)
			}
			if why := guard.Check(ap.Addr()); why != "" {
				return fmt.Errorf("%s is %s: control does not connect there (steer.yaml, notify.allowLoopback)", ap.Addr(), why)
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: postTimeout, MaxResponseHeaderBytes: maxAnswer, DisableCompression: true, ForceAttemptHTTP2: true,
			MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reply is what came of one post.
type reply struct {
	status     int    // 0: no answer
	text       string // of the answer, for people; keys taken out
	retryAfter time.Duration
	err        error // nil: delivered
}

// post sends a message to a target and judges the answer.
func post(ctx context.Context, client *http.Client, t *Target, k *keys, m *message, now time.Time) reply {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := t.request(ctx, k, m, now)
	if err != nil {
		return reply{err: k.plainError(err)}
	}
	res, err := client.Do(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", postTimeout)
		}
		return reply{err: fmt.Errorf("%s: %w", k.where(), k.plainError(err))}
	}
	defer res.Body.Close()
	body, readErr := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	out := reply{status: res.StatusCode, text: cut(clean(strings.TrimSpace(k.scrub(strings.ToValidUTF8(string(body), "?")))), maxShown)}
	out.retryAfter = retryAfter(res.Header.Get("Retry-After"), now)
	out.err = judgeStatus(res.StatusCode)
	if out.err == nil {
		var again time.Duration
		again, out.err = t.judge(body, readErr)
		out.retryAfter = max(out.retryAfter, again)
	}
	if out.err != nil {
		out.err = fmt.Errorf("%s: %w", k.where(), out.err)
		if out.text != "" {
			out.err = fmt.Errorf("%w: %s", out.err, out.text)
		}
	}
	return out
}

// request builds the request; body and signature are made for this moment.
func (t *Target) request(ctx context.Context, k *keys, m *message, now time.Time) (*http.Request, error) {
	u := *k.url
	body, err := t.encode(m, k.secret, now, &u)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range t.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "steer")
	req.Header.Set("Steer-Event-Id", m.id)
	if k.authorization != "" {
		req.Header.Set("Authorization", k.authorization)
	}
	if t.Type == typeWebhook && k.secret != "" {
		req.Header.Set("Steer-Signature", signature(k.secret, now, body))
	}
	return req, nil
}

// judgeStatus says what is wrong with a status; a redirect is not followed, so it is a failure too.
func judgeStatus(status int) error {
	text := fmt.Sprintf("it answered %d %s", status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return errors.New(text + ": redirects are not followed; write the URL it leads to")
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge,
		status == http.StatusUnsupportedMediaType, status == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", errRefused, text)
	}
	return errors.New(text)
}

// retryAfter reads the header of RFC 9110 section 10.2.3: seconds or a date; 0: none that is understood.
func retryAfter(h string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(h, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(h); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
