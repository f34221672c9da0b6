package authdns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/tsig"
)

const (
	// notifyFirst is how long the first NOTIFY waits for its answer; each further one waits twice as long. With
	// notifyTries of them a secondary that is restarted within two minutes hears of it (RFC 1996 section 3.6).
	notifyFirst = 2 * time.Second
	notifyTries = 6
	// notifyAtOnce bounds the messages to one secondary that wait for an answer.
	notifyAtOnce = 8
)

// news is what one secondary is told.
type news struct {
	zone    string
	serial  uint32
	soa     string // in wire form
	to      netip.AddrPort
	keyName string
	key     *tsig.Key // nil: the message is not signed
}

type newsKey struct {
	zone string
	to   netip.AddrPort
}

// notifier tells secondaries that a zone changed (RFC 1996). Every name server of a cluster tells them: which of them a
// secondary listens to is its own configuration, and one message too many is harmless.
type notifier struct {
	listen  []netip.AddrPort // whose addresses secondaries know
	results *prometheus.CounterVec
	log     *slog.Logger
	first   time.Duration // notifyFirst, but in tests

	mu      sync.Mutex
	waiting map[newsKey]*news         // the newest for each; there is a goroutine for each
	places  map[netip.Addr]chan bool  // of notifyAtOnce, by secondary
	said    map[netip.AddrPort]string // what was last logged of a secondary
	running sync.WaitGroup
}

func newNotifier(listen []netip.AddrPort, results *prometheus.CounterVec, log *slog.Logger) *notifier {
	return &notifier{
		listen: listen, results: results, log: log, first: notifyFirst,
		waiting: map[newsKey]*news{}, places: map[netip.Addr]chan bool{}, said: map[netip.AddrPort]string{},
	}
}

// tell has one secondary told, in the background, until it answers, or for about two minutes. What is newer replaces what
// it was not told yet.
func (n *notifier) tell(ctx context.Context, what news) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := newsKey{what.zone, what.to}
	_, running := n.waiting[key]
	n.waiting[key] = &what
	if n.places[what.to.Addr()] == nil {
		n.places[what.to.Addr()] = make(chan bool, notifyAtOnce)
	}
	if !running {
		n.running.Go(func() { n.work(ctx, key) })
	}
}

// wait returns when nobody is being told any more.
func (n *notifier) wait() { n.running.Wait() }

// newest is what there is to tell.
func (n *notifier) newest(key newsKey) *news {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting[key]
}

// work tells one secondary of one zone until there is nothing newer to tell.
func (n *notifier) work(ctx context.Context, key newsKey) {
	for {
		what := n.newest(key)
		result := n.insist(ctx, what)
		n.mu.Lock()
		done := n.waiting[key] == what || ctx.Err() != nil
		if done {
			delete(n.waiting, key)
		}
		n.mu.Unlock()
		if ctx.Err() == nil {
			n.report(what, result)
		}
		if done {
			return
		}
	}
}

// insist sends until an answer comes or something newer is to be told.
func (n *notifier) insist(ctx context.Context, what *news) (result error) {
	wait := n.first
	for range notifyTries {
		began := time.Now()
		answered, err := n.once(ctx, what, wait)
		if answered {
			return err
		}
		result = err
		timer := time.NewTimer(wait - time.Since(began)) // an error may come at once: from a port where nobody listens
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		if n.newest(newsKey{what.zone, what.to}) != what {
			return result
		}
		wait *= 2
	}
	return result
}

// once sends one message and waits for the answer; answered is false when none came that counts.
func (n *notifier) once(ctx context.Context, what *news, wait time.Duration) (answered bool, err error) {
	n.mu.Lock()
	place := n.places[what.to.Addr()]
	n.mu.Unlock()
	select {
	case place <- true:
		defer func() { <-place }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	msg, verify, err := what.message(time.Now())
	if err != nil {
		return true, err
	}
	d := net.Dialer{LocalAddr: n.source(what.to.Addr())}
	c, err := d.DialContext(ctx, "udp", what.to.String())
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }() // nothing is left to be sent
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write(msg); err != nil {
		return false, err
	}
	return what.answer(c, binary.BigEndian.Uint16(msg), verify)
}

// source is the address that a secondary knows us by: one we listen on, if it can be reached from there. nil: the kernel
// chooses.
func (n *notifier) source(to netip.Addr) net.Addr {
	for _, a := range n.listen {
		if a := a.Addr(); a.Is4() == to.Is4() && !a.IsUnspecified() && a.IsLoopback() == to.IsLoopback() {
			return &net.UDPAddr{IP: a.AsSlice(), Zone: a.Zone()}
		}
	}
	return nil
}

// message is the NOTIFY, and what verifies its answer; nil: that is not signed.
func (w *news) message(now time.Time) ([]byte, *tsig.Stream, error) {
	if w.keyName != "" && w.key == nil {
		return nil, nil, fmt.Errorf("TSIG key %s is not to be had", w.keyName)
	}
	m := new(dns.Msg).SetNotify(w.zone)
	var id [2]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, nil, err
	}
	m.Id = binary.BigEndian.Uint16(id[:])
	soa, _, err := dns.UnpackRR([]byte(w.soa), 0)
	if err != nil {
		return nil, nil, fmt.Errorf("SOA of zone %s: %w", w.zone, err)
	}
	m.Answer = []dns.RR{soa} // a hint: section 3.7
	msg, err := m.Pack()
	if err != nil || w.key == nil {
		return msg, nil, err
	}
	s := tsig.Request(w.key)
	msg = s.Append(msg, 0, uint64(now.Unix()))
	return msg, tsig.NewStream(w.key, s.MAC()), nil
}

// answer reads until the answer comes. The socket is connected: what comes is from the address that was told.
func (w *news) answer(c net.Conn, id uint16, verify *tsig.Stream) (answered bool, err error) {
	buf := make([]byte, maxMessage)
	for {
		size, readErr := c.Read(buf)
		if readErr != nil {
			return false, errors.Join(err, readErr)
		}
		m := new(dns.Msg)
		if m.Unpack(buf[:size]) != nil || m.Id != id || !m.Response || m.Opcode != dns.OpcodeNotify {
			continue
		}
		if verify != nil && !verify.Verify(buf[:size], uint64(time.Now().Unix())) {
			err = fmt.Errorf("its answer, %s, is not signed by our key", dns.RcodeToString[m.Rcode])
			continue
		}
		if m.Rcode != dns.RcodeSuccess {
			return true, fmt.Errorf("it answers %s", dns.RcodeToString[m.Rcode])
		}
		return true, nil
	}
}

// report counts how it went, and logs what is new about a secondary.
func (n *notifier) report(what *news, err error) {
	result, text := "answered", ""
	if err != nil {
		result, text = "failed", err.Error()
	}
	n.results.WithLabelValues(result).Inc()
	n.mu.Lock()
	before, known := n.said[what.to]
	n.said[what.to] = text
	n.mu.Unlock()
	switch {
	case before == text && known:
	case err != nil:
		n.log.Warn("a secondary was told of a change and did not take it: it will look by itself after the refresh time of the SOA",
			"zone", what.zone, "secondary", what.to, "serial", what.serial, "error", err)
	default:
		n.log.Info("a secondary hears of changes", "zone", what.zone, "secondary", what.to, "serial", what.serial)
	}
}
