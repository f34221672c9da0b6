package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/snapshot"
)

var errSilent = errors.New("nothing came for three keep-alives")

// FollowDNS follows the map of names, beginning after version have (0: nothing is there). take is called for one update
// after the other; its error ends the stream and is returned. FollowDNS returns when the stream ends, and never nil: a
// *pki.Refusal, an error that matches ErrUnreached or ErrStreamEnded, take's, or ctx's.
func (c *Client) FollowDNS(ctx context.Context, have uint64, take func(Update) error) error {
	return c.follow(ctx, "dns", have, dnsFrame(take))
}

func dnsFrame(take func(Update) error) takeFrame {
	return func(kind byte, payload []byte, arrived time.Time, size int) error {
		u := Update{Arrived: arrived, Bytes: size}
		var err error
		switch kind {
		case frameFull:
			u.Full, err = decode[snapshot.DNS](payload)
		case frameDelta:
			u.Delta, err = decode[snapshot.DNSDelta](payload)
		case frameState:
			u.State, err = decode[NodeState](payload)
		default:
			return nil // of a newer control
		}
		if err != nil {
			return err
		}
		return take(u)
	}
}

// FollowProbe follows the tasks of a probe point, like FollowDNS.
func (c *Client) FollowProbe(ctx context.Context, have uint64, take func(ProbeUpdate) error) error {
	return c.follow(ctx, "probe", have, probeFrame(take))
}

func probeFrame(take func(ProbeUpdate) error) takeFrame {
	return func(kind byte, payload []byte, arrived time.Time, size int) error {
		u := ProbeUpdate{Arrived: arrived, Bytes: size}
		var err error
		switch kind {
		case frameFull:
			u.Full, err = decode[snapshot.Probe](payload)
		case frameDelta:
			u.Delta, err = decode[snapshot.ProbeDelta](payload)
		case frameState:
			u.State, err = decode[NodeState](payload)
		case frameAsk:
			u.Ask, err = decode[Ask](payload)
		default:
			return nil // of a newer control
		}
		if err != nil {
			return err
		}
		return take(u)
	}
}

// decode reads a payload. Fields it does not know are of a newer control and are skipped.
func decode[T any](payload []byte) (*T, error) {
	value := new(T)
	if err := json.Unmarshal(payload, value); err != nil {
		return nil, fmt.Errorf("control sent what cannot be read: %w", err)
	}
	return value, nil
}

type takeFrame func(kind byte, payload []byte, arrived time.Time, size int) error

func (c *Client) follow(ctx context.Context, name string, have uint64, take takeFrame) error {
	call := callNamed(name)
	query := "?" + url.Values{queryHave: {strconv.FormatUint(have, 10)}}.Encode()
	return c.inTurn(ctx, func(ctx context.Context, server string) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		begin := time.AfterFunc(c.cfg.CallTimeout, func() { cancel(errSilent) })
		resp, err := c.send(ctx, call, server+call.Path+query, nil, nil)
		begin.Stop()
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return c.read(ctx, &patient{body: resp.Body, silence: c.silence(0), cancel: cancel}, take)
	})
}

func (c *Client) silence(keepAlive time.Duration) time.Duration {
	if c.cfg.Silence > 0 {
		return c.cfg.Silence
	}
	if keepAlive <= 0 {
		keepAlive = defaultKeepAlive
	}
	return silentKeepAlives * keepAlive
}

// read reads the frames of a stream until it ends.
func (c *Client) read(ctx context.Context, in *patient, take takeFrame) error {
	for {
		before := in.bytes
		kind, payload, err := readFrame(in, maxFrame, maxUnpacked)
		arrived := time.Now()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("%w: %w", ErrStreamEnded, err)
		}
		switch kind {
		case frameKeepAlive:
			continue
		case frameHello:
			hello, err := decode[Hello](payload)
			if err != nil {
				return err
			}
			in.silence = c.silence(hello.KeepAlive)
			continue
		case frameEnd:
			why, err := decode[pki.Refusal](payload)
			if err != nil {
				return err
			}
			return why
		}
		if err := take(kind, payload, arrived, int(in.bytes-before)); err != nil {
			return err
		}
	}
}

// patient reads, and cancels when nothing comes for too long. The time that the reader spends elsewhere does not count.
type patient struct {
	body    io.Reader
	silence time.Duration
	cancel  context.CancelCauseFunc
	bytes   int64
}

func (p *patient) Read(b []byte) (int, error) {
	timer := time.AfterFunc(p.silence, func() { p.cancel(errSilent) })
	n, err := p.body.Read(b)
	timer.Stop()
	p.bytes += int64(n)
	return n, err
}
