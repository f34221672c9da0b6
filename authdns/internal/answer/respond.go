package answer

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/cookie"
	"steerpoint/authdns/internal/rrl"
	"steerpoint/authdns/internal/sign"
	"steerpoint/authdns/internal/wire"
	"steerpoint/geo"
)

const unmapped = geo.Unmapped

// Source says what an answer was chosen by.
type Source uint8

// The sources, in growing order of how much they know of the client.
const (
	SourceStatic   Source = iota // the same for everyone
	SourceResolver               // the address the query came from
	SourceECS                    // the client subnet in the query
)

func (s Source) String() string { return [...]string{"static", "resolver", "ecs"}[s] }

// Drop says why a packet was not answered.
type Drop uint8

// The reasons. Packets that are themselves responses, or too short for a header, are never answered.
const (
	Answered Drop = iota
	DropShort
	DropResponse
	DropLimited // one reply too many to that network
)

// Config is what replies need besides the index.
type Config struct {
	// MaxUDP is the largest UDP reply in octets, whatever the client allows; at least 512.
	MaxUDP int
	// NSID is sent to who asks for it (RFC 5001); empty: never. At most 128 octets.
	NSID string
	// Version answers version.bind, Hostname answers hostname.bind and id.server, class CH; empty: REFUSED.
	Version, Hostname string
	Cookies           *cookie.Keys // nil: cookies are ignored
	// TCPIdle is announced to clients that ask for it over TCP (RFC 7828).
	TCPIdle time.Duration
	// MaxUDPNoCookie is MaxUDP for who has not shown a cookie of ours; 0: MaxUDP. At least 512 otherwise.
	MaxUDPNoCookie int
	Limit          *rrl.Limiter // of replies over UDP; nil: there is none
	// Signer signs zones (secure.go); nil: none is signed.
	Signer *sign.Signer
}

// Exchange is one query and what became of it. The caller fills the upper part; one value serves a socket.
type Exchange struct {
	Client netip.Addr // IPv4 as such, never mapped
	TCP    bool
	Now    time.Duration // monotonic, on any epoch, the one given to Build
	Unix   uint32        // wall clock seconds, for cookies
	// NoKeepalive: the transport has a keepalive of its own (HTTP).
	NoKeepalive bool
	// Reserve is how many octets of what the client takes are left free: for a signature.
	Reserve int

	// Result is set by Respond.
	Result Result

	q      wire.Query
	opt    [512]byte
	cookie cookie.State
	// chain are the CNAMEs before the answer, in their order; outcome.hops says how many.
	chain  [maxChain]hop
	target [255]byte // the name a CNAME leads to, in lower case
	// refersAt is where the referral begins in the message that is made.
	refersAt int
	sec      *security
	made     *madeCNAMEs
	hint     *rrset // room for a set with hints
}

// Result is what a query came to.
type Result struct {
	Drop   Drop
	Rcode  uint16 // extended
	ECS    bool   // the query had a client subnet, not an opt-out
	Source Source
	Limit  Limited
	// Aside: the message is signed or asks for a transfer (wire.Query.Aside), which the reply takes no notice of.
	Aside bool
}

// Responder answers by the current index. Its methods may be called by any number of goroutines.
type Responder struct {
	cfg   Config
	index atomic.Pointer[Index]
	note  atomic.Pointer[string]
}

// MaxNote bounds the text of SetNote in octets.
const MaxNote = 128

// SetNote makes steered replies carry a text as extended error "other" (RFC 8914), where it fits; empty: none any
// more.
func (r *Responder) SetNote(text string) {
	if text == "" {
		r.note.Store(nil)
		return
	}
	text = text[:min(len(text), MaxNote)]
	r.note.Store(&text)
}

// NewResponder makes a responder without an index: until SetIndex it answers SERVFAIL.
func NewResponder(cfg Config) *Responder { return &Responder{cfg: cfg} }

// Index is the current index; nil before the first.
func (r *Responder) Index() *Index { return r.index.Load() }

// SetIndex makes ix the current index. Replies in the making go on with the one they began with.
func (r *Responder) SetIndex(ix *Index) { r.index.Store(ix) }

// Respond appends the reply to the message req to dst and returns it; it returns dst as it was when req is to be
// dropped. It never returns more than the transport and the client allow.
func (r *Responder) Respond(dst, req []byte, x *Exchange) []byte {
	x.Result = Result{}
	verdict := x.q.Parse(req)
	x.Result.Aside = x.q.Aside()
	switch verdict {
	case wire.Short:
		x.Result.Drop = DropShort
		return dst
	case wire.Response:
		x.Result.Drop = DropResponse
		return dst
	}
	r.checkCookie(x)
	o := r.decide(verdict, x)
	if r.overLimit(x, &o) { // before it is signed: a flood is to cost no signatures
		return dst
	}
	r.secure(x, &o)
	x.Result.Rcode, x.Result.Source = o.rcode, o.source
	x.Result.ECS = x.q.HasECS && x.q.ECS.Source > 0
	return r.encode(dst, x, &o)
}

// outcome is what is to be said; encode says it.
type outcome struct {
	rcode  uint16
	echo   bool // repeat the question
	aa     bool
	answer *rrset
	ttl    uint32 // of the answer
	soa    *zone  // put its SOA into authority,
	soaTTL uint32 // with this TTL
	serial uint32 // of a SOA, wherever it stands
	// version is the serial of the zone that the question is of.
	version uint32
	apex    *node // put its glue into additional
	hops    int   // CNAMEs before the answer or its denial, in Exchange.chain
	refer   *referral
	text    string // CH TXT answer
	ede     uint16 // extended error; noEDE: none
	scope   int    // ECS scope
	source  Source
	tc      bool  // truncate it, whatever its size
	of      *zone // the zone of the answer, where it is not that of the node
	signed  bool  // Exchange.sec is of this reply

	// dname is the DNAME record that answer, a CNAME, was made of; without answer the name would be too long.
	dname *rrset

	first *node // of the question's name, where CNAMEs lead to another

	// For explanations.
	node    *node
	service *service
	pick    pick
}

// noEDE: 0 is an extended error itself ("other").
const noEDE = 0xFFFF

func refuse(rcode uint16) outcome { return outcome{rcode: rcode, echo: true, ede: noEDE} }

// decide finds the outcome of a query that gets a reply.
func (r *Responder) decide(verdict wire.Verdict, x *Exchange) outcome {
	q := &x.q
	switch {
	case q.Opcode == wire.OpcodeUpdate:
		return refuse(dns.RcodeRefused)
	case q.Opcode != wire.OpcodeQuery:
		// What the body of another opcode holds is not known: nothing of it is repeated.
		return outcome{rcode: dns.RcodeNotImplemented, ede: noEDE}
	case verdict == wire.BadVersion:
		return refuse(dns.RcodeBadVers)
	case verdict == wire.CookieOnly:
		return refuse(dns.RcodeSuccess)
	case verdict != wire.OK:
		return refuse(dns.RcodeFormatError)
	case q.Class == wire.ClassCH:
		return r.chaos(q)
	case q.Class != wire.ClassIN, q.Type == dns.TypeAXFR, q.Type == dns.TypeIXFR:
		return refuse(dns.RcodeRefused)
	}
	ix := r.index.Load()
	if ix == nil {
		o := refuse(dns.RcodeServerFailure)
		o.ede = dns.ExtendedErrorCodeNotReady
		return o
	}
	o := ix.answer(x)
	o.version = ix.serial(o.zone())
	if o.serial = o.version; o.soa != nil {
		o.serial = ix.serial(o.soa)
	}
	return o
}

// chaos answers the customary questions for a server's version and name, where configured.
func (r *Responder) chaos(q *wire.Query) outcome {
	text := ""
	switch string(q.Name()) {
	case "\x07version\x04bind\x00":
		text = r.cfg.Version
	case "\x08hostname\x04bind\x00", "\x02id\x06server\x00":
		text = r.cfg.Hostname
	}
	if text == "" || q.Type != dns.TypeTXT {
		return refuse(dns.RcodeRefused)
	}
	o := refuse(dns.RcodeSuccess)
	o.aa, o.text = true, text
	return o
}

// answer finds the outcome of a question of class IN.
func (ix *Index) answer(x *Exchange) outcome {
	o := ix.lookUp(x.q.Name(), x, 0)
	if o.answer != nil && o.answer.rrType == dns.TypeCNAME && o.service == nil && x.q.Type != dns.TypeCNAME && x.q.Type != typeANY {
		ix.follow(&o, x)
	}
	return o
}

// lookUp finds the outcome at one name, which so many CNAMEs led to; those at it are not followed.
func (ix *Index) lookUp(name []byte, x *Exchange, hops int) outcome {
	q := &x.q
	n, exists := ix.find(name)
	switch {
	case n == nil:
		o := refuse(dns.RcodeRefused)
		o.ede = dns.ExtendedErrorCodeNotAuthoritative
		return o
	case n.cut != nil:
		return referred(n, name, q.Type)
	case !exists && n.renames:
		return renamed(n, name, x, hops)
	case !exists:
		o := negative(n.zone, n.zone.negTTL)
		o.rcode, o.node = dns.RcodeNameError, n
		return o
	case q.Type == dns.TypeDS && n.apex && n.zone.parent != nil:
		return ix.digests(n)
	}
	o := ix.answerAt(n, q, x)
	o.node = n
	return o
}

func negative(z *zone, ttl uint32) outcome {
	return outcome{echo: true, aa: true, ede: noEDE, soa: z, soaTTL: ttl}
}

func positive(s *rrset, ttl uint32) outcome {
	return outcome{echo: true, aa: true, ede: noEDE, answer: s, ttl: ttl}
}

func (ix *Index) answerAt(n *node, q *wire.Query, x *Exchange) outcome {
	if s := n.static(q.Type); s != nil {
		if s.hints && n.service != 0 {
			return ix.hinted(n, s, q, x)
		}
		o := positive(s, s.ttl)
		if s.rrType == dns.TypeNS && n.apex {
			o.apex = n
		}
		return o
	}
	s := ix.at(n)
	if s == nil {
		return negative(n.zone, n.zone.negTTL)
	}
	return n.steered(s, q, x)
}

// static is the record set for a type: its own, the CNAME that stands for all types, or any one for ANY.
func (n *node) static(rrType uint16) *rrset {
	if len(n.sets) == 0 {
		return nil
	}
	if rrType == typeANY {
		return n.sets[0] // one record set of those there are: RFC 8482 section 4.1
	}
	if s := n.set(rrType); s != nil {
		return s
	}
	return n.set(dns.TypeCNAME)
}

// steered answers for a name of a service.
func (n *node) steered(s *service, q *wire.Query, x *Exchange) outcome {
	k := kindOf(q.Type)
	p := s.pick(q.ECS.Addr, x.Client, k)
	var set *rrset
	if p.choice != nil {
		set = p.choice.set(k)
	}
	ttl := p.rule.ttlAt(x.Now)
	o := positive(set, ttl)
	if set == nil {
		o = negative(n.zone, min(n.zone.negTTL, s.negTTL, ttl))
	}
	o.pick, o.service = p, s
	if s.tailored[k] {
		o.scope, o.source = p.bits, p.source
	}
	return o
}
