package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// ClientConfig is how a node reaches control.
type ClientConfig struct {
	// Servers are https://host:port, tried in turn beginning with the one that worked last.
	Servers []string
	// Authority is the cluster's authority, PEM. A machine that joins does not have it yet: it has the hash in its token.
	Authority     []byte
	AuthorityHash string // hex SHA-256 of the authority's DER; used when Authority is nil
	// Certificate is the node's, asked for at every call; nil from it: none, as before a join. When it gives another
	// than before, new calls go over new connections.
	Certificate func() *tls.Certificate
	Program     string // the node's version
	// Dial is for tests and for odd networks. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// CallTimeout is for one try of a call at one server, and for a stream to begin. Default 15 s.
	CallTimeout time.Duration
	// Silence ends a stream on which nothing came for so long. Default: three of the keep-alives that control says.
	Silence time.Duration
}

const (
	// A connection on which nothing came for clientPing is pinged. Where a stream is followed its keep-alives come first.
	clientPing        = 10 * time.Second
	clientPingTimeout = 15 * time.Second
	clientIdle        = 30 * time.Second
	clientDial        = 5 * time.Second
	maxAnswer         = mib
	packBodyAbove     = 4 * kib
)

// ErrUnreached is matched when no server could be reached, or none that is control.
var ErrUnreached = errors.New("no control reached")

// ErrStreamEnded is matched when a stream that had begun ended without a refusal: control stopped, or the way to it did.
var ErrStreamEnded = errors.New("the stream ended")

// Client is a node's end. Its methods may be called at the same time.
type Client struct {
	cfg    ClientConfig
	pool   *x509.CertPool // nil: by hash
	broken error          // what is wrong with the configuration: every call returns it

	closed context.Context
	stop   context.CancelFunc

	mu      sync.Mutex
	current int // index of the server that worked last
	cert    *tls.Certificate
	trans   *http.Transport
	retired *http.Transport // of the certificate before; a stream may still use it
	conns   map[*clientConn]struct{}
	over    bool // Close was called
}

// clientConn is a connection that Close finds.
type clientConn struct {
	net.Conn
	client *Client
}

func (n *clientConn) Close() error {
	n.client.mu.Lock()
	delete(n.client.conns, n)
	n.client.mu.Unlock()
	return n.Conn.Close()
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	inner, err := c.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n := &clientConn{Conn: inner, client: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errors.Join(net.ErrClosed, inner.Close())
	}
	c.conns[n] = struct{}{}
	return n, nil
}

// NewClient makes a client. It connects when it is first called. A mistake in cfg is the error of every call.
func NewClient(cfg ClientConfig) *Client {
	setDefault(&cfg.CallTimeout, defaultCallTimeout)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: clientDial, KeepAlive: clientPing}).DialContext
	}
	if cfg.Certificate == nil {
		cfg.Certificate = func() *tls.Certificate { return nil }
	}
	c := &Client{cfg: cfg, conns: map[*clientConn]struct{}{}}
	c.closed, c.stop = context.WithCancel(context.Background())
	c.pool, c.broken = authorityPool(cfg)
	servers := make([]string, len(cfg.Servers))
	for i, s := range cfg.Servers {
		servers[i] = strings.TrimSuffix(s, "/")
		if !strings.HasPrefix(s, "https://") && c.broken == nil {
			c.broken = fmt.Errorf("control's address %q: want https://host:port", s)
		}
	}
	c.cfg.Servers = servers
	if len(servers) == 0 && c.broken == nil {
		c.broken = errors.New("control's address is missing")
	}
	return c
}

func authorityPool(cfg ClientConfig) (*x509.CertPool, error) {
	if cfg.Authority == nil {
		if cfg.AuthorityHash == "" {
			return nil, errors.New("neither the authority nor its hash is given: control could not be told from an impostor")
		}
		return nil, nil
	}
	cert, err := pki.ParseAuthority(cfg.Authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool, nil
}

// Close ends every stream and call, and closes the connections.
func (c *Client) Close() {
	c.stop()
	c.mu.Lock()
	c.over = true
	open := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, n := range open {
		_ = n.Close() // whatever was under way on it has failed already
	}
}

// transport is of the certificate the node has now.
func (c *Client) transport() *http.Transport {
	cert := c.cfg.Certificate()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trans != nil && cert == c.cert {
		return c.trans
	}
	if c.retired != nil {
		c.retired.CloseIdleConnections()
	}
	if c.trans != nil {
		c.trans.CloseIdleConnections()
	}
	c.retired, c.cert, c.trans = c.trans, cert, c.newTransport(cert)
	return c.trans
}

func (c *Client) newTransport(cert *tls.Certificate) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialContext: c.dial,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13,
			// Names of hosts and times are not judged (see pki); verify judges the rest, at every connection.
			InsecureSkipVerify: true,
			VerifyConnection:   c.verify,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if cert == nil {
					return &tls.Certificate{}, nil
				}
				return cert, nil
			},
		},
		Protocols:              protocols,
		TLSHandshakeTimeout:    clientPing,
		IdleConnTimeout:        clientIdle,
		DisableCompression:     true,
		MaxResponseHeaderBytes: defaultHeader,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: clientPing, PingTimeout: clientPingTimeout, WriteByteTimeout: defaultSlowAfter,
		},
	}
}

// verify checks that the server is control.
func (c *Client) verify(s tls.ConnectionState) error {
	pool := c.pool
	if pool == nil {
		var err error
		if pool, err = pki.PoolByHash(s.PeerCertificates, c.cfg.AuthorityHash); err != nil {
			return err
		}
	}
	return pki.VerifyControl(pool, s.PeerCertificates)
}

// Join asks to become a node.
func (c *Client) Join(ctx context.Context, a pki.Application) (pki.Credential, error) {
	var out pki.Credential
	err := c.call(ctx, "join", a, &out)
	return out, err
}

// Renew asks for a new certificate; an expired one is enough to ask with.
func (c *Client) Renew(ctx context.Context, request []byte) (pki.Credential, error) {
	var out pki.Credential
	err := c.call(ctx, "renew", renewal{Request: request}, &out)
	return out, err
}

// Ack answers a version of a snapshot.
func (c *Client) Ack(ctx context.Context, a report.Ack) error { return c.call(ctx, "ack", a, nil) }

// Report says how the node is.
func (c *Client) Report(ctx context.Context, s report.NodeStatus) error {
	return c.call(ctx, "status", s, nil)
}

// Observe ships observations once: see ObserveBatch.
func (c *Client) Observe(ctx context.Context, list []report.Observation) error {
	return c.ObserveBatch(ctx, NewBatchID(), list)
}

// NewBatchID names a batch of observations.
func NewBatchID() string { return rand.Text() }

// ObserveBatch ships observations, at most 1,000. After an error it is not known whether they arrived: who ships the
// same ones again under the same ID has them counted once.
func (c *Client) ObserveBatch(ctx context.Context, id string, list []report.Observation) error {
	return c.call(ctx, "observations", batch{ID: id, Observations: list}, nil)
}

// Result answers an Ask: with the observation, or with the reason why there is none.
func (c *Client) Result(ctx context.Context, askID string, o report.Observation, failure string) error {
	a := answer{ID: askID, Failure: failure}
	if failure == "" {
		a.Observation = &o
	}
	return c.call(ctx, "result", a, nil)
}

// Update hands a DNS UPDATE on and gives what became of it. After an error it is not known whether it was done: the same
// message again is taken for the same.
func (c *Client) Update(ctx context.Context, u report.Update) (report.UpdateResult, error) {
	var out report.UpdateResult
	err := c.call(ctx, "update", u, &out)
	return out, err
}

// callNamed is the entry of the service definition.
func callNamed(name string) *Call {
	for i := range Calls {
		if Calls[i].Name == name {
			return &Calls[i]
		}
	}
	return nil
}

// call makes one call that is no stream. An error is a *pki.Refusal, or matches ErrUnreached.
func (c *Client) call(ctx context.Context, name string, in, out any) error {
	payload, err := json.Marshal(in)
	if err != nil { // a refusal, since trying the same again is of no use
		return pki.Refuse(pki.BadRequest, name+": what is to be sent cannot be written: "+err.Error(), "")
	}
	header := http.Header{"Content-Type": {typeJSON}}
	if len(payload) > packBodyAbove {
		if payload, err = pack(payload); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		header.Set("Content-Encoding", "gzip")
	}
	call := callNamed(name)
	return c.inTurn(ctx, func(ctx context.Context, server string) error {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
		defer cancel()
		resp, err := c.send(ctx, call, server+call.Path, header, payload)
		if err != nil {
			return err
		}
		defer drain(resp.Body)
		if out == nil {
			return nil
		}
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err == nil {
			err = json.Unmarshal(raw, out)
		}
		if err != nil {
			return fmt.Errorf("control's answer to %s: %w", name, err)
		}
		return nil
	})
}

// inTurn tries the servers, beginning with the one that worked last, until one says something that counts.
func (c *Client) inTurn(ctx context.Context, try func(ctx context.Context, server string) error) error {
	if c.broken != nil {
		return c.broken
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	c.mu.Lock()
	first := c.current
	c.mu.Unlock()
	var tried []error
	for i := range c.cfg.Servers {
		n := (first + i) % len(c.cfg.Servers)
		err := try(ctx, c.cfg.Servers[n])
		var elsewhere *elsewhereError
		if !errors.As(err, &elsewhere) {
			c.mu.Lock()
			c.current = n
			c.mu.Unlock()
			return err
		}
		tried = append(tried, fmt.Errorf("%s: %w", c.cfg.Servers[n], elsewhere.err))
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrUnreached, errors.Join(tried...))
}

// elsewhereError is one with which the next server may do better.
type elsewhereError struct{ err error }

func (e *elsewhereError) Error() string { return e.err.Error() }
func (e *elsewhereError) Unwrap() error { return e.err }

// send sends one request and gives an answer with status 2xx, or an error.
func (c *Client) send(ctx context.Context, call *Call, url string, header http.Header, payload []byte) (*http.Response, error) {
	var in io.Reader = http.NoBody
	if payload != nil {
		in = bytes.NewReader(payload)
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, url, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call.Name, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set(headerProgram, c.cfg.Program)
	req.Header.Set(headerProtocol, strconv.Itoa(Protocol))
	resp, err := c.transport().RoundTrip(req)
	if err != nil {
		return nil, &elsewhereError{err}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer drain(resp.Body)
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	var refusal pki.Refusal
	if err != nil || json.Unmarshal(raw, &refusal) != nil || refusal.Code == "" {
		return nil, &elsewhereError{fmt.Errorf("answered %s: that is not control", resp.Status)}
	}
	refusal.Status = resp.StatusCode
	if refusal.Code == pki.Busy {
		return nil, &elsewhereError{&refusal}
	}
	return nil, &refusal
}

// drain leaves a connection usable for the next call.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4*kib) // what is left does not matter; nor does an error of closing what was read
	_ = body.Close()
}
