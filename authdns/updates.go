package authdns

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/server"
	"steerpoint/authdns/internal/wire"
	"steerpoint/internal/dnsupdate"
	"steerpoint/report"
)

const (
	// updateWait bounds how long a DNS UPDATE is waited for: nsupdate, lego, certbot and acme.sh wait for 9 s and more, or send
	// it again meanwhile, and control gives up before that.
	updateWait = 8 * time.Second
	// maxUpdates is how many updates may be under way here.
	maxUpdates = 32
	// updateRate is how many updates a second one key may send, updateBurst how many at once.
	updateRate, updateBurst = 10, 100
)

// Updates takes DNS UPDATE messages (RFC 2136) to where records are kept, and returns when name servers answer by them. The
// error says why it could not be asked.
type Updates func(ctx context.Context, u report.Update) (report.UpdateResult, error)

// updates hands on the updates that this name server takes.
type updates struct {
	to     Updates // nil: there are none
	wait   time.Duration
	log    *slog.Logger
	count  *prometheus.CounterVec
	slots  chan struct{}
	ctx    context.Context // until Run ends
	cancel context.CancelFunc

	mu    sync.Mutex
	rates map[string]*updateBucket // by zone and key
}

// updateBucket holds back a key.
type updateBucket struct {
	left float64
	at   time.Time
	over bool // it was told that the key sends too many
}

func newUpdates(to Updates, wait time.Duration, count *prometheus.CounterVec, log *slog.Logger) *updates {
	u := &updates{to: to, wait: cmp.Or(wait, updateWait), log: log, count: count, slots: make(chan struct{}, maxUpdates), rates: map[string]*updateBucket{}}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

// allow takes one update of a key from its share. now may go back between sockets.
func (u *updates) allow(zone, key string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.rates[zone+" "+key]
	if b == nil {
		b = &updateBucket{left: updateBurst, at: now}
		u.rates[zone+" "+key] = b
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.left, b.at = min(updateBurst, b.left+updateRate*passed.Seconds()), now
	}
	if b.left < 1 {
		if !b.over {
			b.over = true
			u.log.Warn("a key sends too many DNS updates: those beyond the rate fail", "zone", zone, "key", key, "second", updateRate)
		}
		return false
	}
	b.left--
	b.over = b.over && b.left < updateBurst/2
	return true
}

// update is the reply to a DNS UPDATE, or has it come later. The message was signed, and rightly, unless key is nil.
func (s *side) update(plain []byte) []byte {
	u := s.h.s.updates
	refuse := func(rcode uint16, why string) []byte {
		u.count.WithLabelValues(rcodeText(rcode)).Inc()
		u.log.Info("DNS UPDATE refused", "zone", nameOf(s.q.Name()), "client", s.client, "rcode", rcodeText(rcode), "why", why)
		return s.sign(s.fault(rcode, noEDE))
	}
	if s.key == nil {
		return plain
	}
	of := "" // the zones of shares are ours, or a sender could make up any number of them
	if slices.Contains(s.h.s.transfers.keys.Load().byZone[string(s.q.Name())], s.key) {
		of = nameOf(s.q.Name())
	}
	switch {
	case !u.allow(of, nameOf(s.key.Name), s.now):
		u.count.WithLabelValues(rcodeText(dns.RcodeServerFailure)).Inc()
		return s.sign(s.fault(dns.RcodeServerFailure, noEDE))
	case u.to == nil:
		return refuse(dns.RcodeRefused, "this name server has no control to hand it to")
	case s.q.Question == nil || s.q.Type != dns.TypeSOA:
		return refuse(dns.RcodeFormatError, "it does not name one zone by type SOA")
	case of == "":
		return refuse(dns.RcodeNotAuth, "the zone is none of ours, or has no such key itself")
	case len(s.msg) > dnsupdate.MaxMessage:
		return refuse(dns.RcodeRefused, "it is too long")
	}
	select {
	case u.slots <- struct{}{}:
	default:
		return refuse(dns.RcodeServerFailure, "too many updates are under way")
	}
	sum := sha256.Sum256(append(slices.Clone(s.msg), s.signer.MAC()...))
	what := report.Update{
		ID: hex.EncodeToString(sum[:]), Zone: nameOf(s.q.Name()), Key: nameOf(s.key.Name), Client: s.client.String(), Message: s.msg,
	}
	key, signer := s.key, s.signer
	later := s.h.apart(s.msg, s.client, s.now, func(late *side, send func([]byte) bool) {
		rcode := u.hand(what)
		late.key, late.signer = key, signer
		send(late.signNow(late.fault(rcode, noEDE)))
	})
	s.h.later = func(send func([]byte) bool) {
		defer func() { <-u.slots }()
		later(send)
	}
	return s.reply
}

// hand has control do an update and gives the response code for its sender.
func (u *updates) hand(what report.Update) uint16 {
	ctx, cancel := context.WithTimeout(u.ctx, u.wait)
	defer cancel()
	result, err := u.to(ctx, what)
	if err != nil {
		result = report.UpdateResult{Rcode: dns.RcodeServerFailure, Reason: err.Error()}
	}
	if result.Rcode >= rcodes { // of a control that knows more than this
		result.Rcode = dns.RcodeServerFailure
	}
	u.count.WithLabelValues(rcodeText(result.Rcode)).Inc()
	level := slog.LevelInfo
	if result.Rcode == dns.RcodeServerFailure {
		level = slog.LevelWarn
	}
	u.log.Log(ctx, level, "DNS UPDATE", "zone", what.Zone, "key", what.Key, "client", what.Client, "rcode", rcodeText(result.Rcode), "reason", result.Reason)
	return result.Rcode
}

// apart makes what is done about a message after its handler went on to others: by a handler and a copy of its own.
func (h *handler) apart(msg []byte, client netip.Addr, now time.Time, do func(late *side, send func([]byte) bool)) server.Later {
	own := &handler{s: h.s, transport: h.transport, late: true, x: answer.Exchange{
		TCP: h.x.TCP, NoKeepalive: h.x.NoKeepalive, Client: client, Now: h.x.Now, Unix: h.x.Unix,
		Result: answer.Result{Rcode: h.x.Result.Rcode, Aside: true},
	}}
	late := &side{h: own, msg: slices.Clone(msg), client: client, now: now}
	return func(send func([]byte) bool) {
		defer func() {
			if v := recover(); v != nil { // as in Handle
				h.s.metrics.panics.Inc()
				h.s.log.Error("a message hit a fault in this program and was dropped: please report it",
					"panic", v, "client", client, "stack", string(debug.Stack()))
			}
		}()
		if late.q.Parse(late.msg) != wire.OK {
			return // it was
		}
		do(late, send)
		own.s.metrics.query(own.transport, &own.x.Result)
	}
}

// transferLater is a transfer on a connection, all messages of it.
func (h *handler) transferLater(plain, msg []byte, client netip.Addr, now time.Time) server.Later {
	plain = slices.Clone(plain)
	return h.apart(msg, client, now, func(late *side, send func([]byte) bool) {
		own := late.h
		out := own.aside(nil, plain, late.msg, client, now)
		for len(out) > 0 && send(out) {
			out = own.More(out[:0])
		}
	})
}

// Later gives what is to be done about the message handled last.
func (h *handler) Later() server.Later {
	later := h.later
	h.later = nil
	return later
}

// signNow signs a reply by the time it is sent.
func (s *side) signNow(out []byte) []byte {
	s.now = time.Now()
	return s.sign(out)
}

// nameOf is a wire name as text.
func nameOf(name []byte) string {
	text, _, err := dns.UnpackDomainName(name, 0)
	if err != nil {
		return hex.EncodeToString(name)
	}
	return strings.ToLower(text)
}
