package authdns

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/answer"
)

// Explanation tells what a question is answered and why. It comes from the code that answers, not from a copy of it.
type Explanation struct {
	Name   string       `json:"name"` // FQDN
	Type   string       `json:"type"`
	Client netip.Addr   `json:"client"` // address the query would come from: the resolver's
	ECS    netip.Prefix `json:"ecs,omitzero"`
	Map    MapInfo      `json:"map"`

	Zone    string `json:"zone,omitempty"`    // "": the name is in no zone of ours
	Service string `json:"service,omitempty"` // "": the name is not steered
	Rule    string `json:"rule,omitempty"`
	Scope   string `json:"scope,omitempty"` // of the rule
	Edge    string `json:"edge,omitempty"`
	// Decision is the number of the rule's decision the map was made from.
	Decision uint64 `json:"decision,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`

	// Source says what chose the answer: static (the same for all), resolver (the address of the query), ecs (the
	// client subnet). Decider is that address, Place where it is, Value the index of its scope in the service's table.
	Source  string     `json:"source"`
	Decider netip.Addr `json:"decider,omitzero"`
	Place   string     `json:"place,omitempty"`
	Value   int        `json:"value"`

	Rcode     string        `json:"rcode"`
	NoData    bool          `json:"noData,omitempty"` // the name exists, the type does not
	Answer    []string      `json:"answer,omitempty"` // records in presentation format
	Authority []string      `json:"authority,omitempty"`
	TTL       time.Duration `json:"ttl"` // of the answer or of its denial
	// ECSScope is the scope prefix length returned; -1 without ECS.
	ECSScope int `json:"ecsScope"`

	// Why is one sentence for people.
	Why string `json:"why"`
}

// Explain answers a question as a query from client would be, and tells why. ecs is the client subnet it carries; the
// zero Prefix: none. qtype is a DNS type code.
func (s *Server) Explain(name string, client netip.Addr, ecs netip.Prefix, qtype uint16) (Explanation, error) {
	name = dns.CanonicalName(name)
	client = client.Unmap()
	e := Explanation{
		Name: name, Type: dns.Type(qtype).String(), Client: client, ECS: ecs, Map: s.Map(), ECSScope: -1, Value: -1,
	}
	if _, ok := dns.IsDomainName(name); !ok || !client.IsValid() {
		return e, fmt.Errorf("explain %q for %s: want a domain name and an address", name, client)
	}
	query := new(dns.Msg).SetQuestion(name, qtype)
	query.SetEdns0(dns.DefaultMsgSize, false)
	if ecs.IsValid() {
		opt := query.IsEdns0()
		opt.Option = append(opt.Option, clientSubnet(ecs.Masked()))
	}
	packed, err := query.Pack()
	if err != nil {
		return e, fmt.Errorf("explain %q: make query: %w", name, err)
	}
	now := time.Now()
	x := answer.Exchange{Client: client, TCP: true, Now: now.Sub(s.epoch), Unix: uint32(now.Unix())}
	packed, trace := s.responder.Trace(nil, packed, &x)
	reply := new(dns.Msg)
	if err := reply.Unpack(packed); err != nil {
		return e, fmt.Errorf("explain %q: read own reply: %w", name, err)
	}
	e.fill(reply, &trace)
	if s.cfg.Place != nil && e.Decider.IsValid() {
		e.Place = s.cfg.Place(e.Decider)
	}
	e.Why = e.why(&trace)
	return e, nil
}

func clientSubnet(p netip.Prefix) *dns.EDNS0_SUBNET {
	family := uint16(1)
	if p.Addr().Is6() {
		family = 2
	}
	return &dns.EDNS0_SUBNET{
		Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: net.IP(p.Addr().AsSlice()),
	}
}

// fill takes over what the reply says and how it came about.
func (e *Explanation) fill(reply *dns.Msg, t *answer.Trace) {
	e.Rcode, e.NoData, e.TTL = rcodeText(uint16(reply.Rcode)), t.NODATA, time.Duration(t.TTL)*time.Second
	e.Zone, e.Service, e.Rule, e.Scope, e.Edge = t.Zone, t.Service, t.Rule, t.Scope, t.Edge
	e.Decision, e.Degraded, e.Source = t.Decision, t.Degraded, t.Source.String()
	if t.Service != "" {
		e.Value, e.Decider = int(t.Value), t.Decider
	}
	e.Answer, e.Authority = texts(reply.Answer), texts(reply.Ns)
	opt := reply.IsEdns0()
	if opt == nil {
		return
	}
	for _, o := range opt.Option {
		if subnet, ok := o.(*dns.EDNS0_SUBNET); ok {
			e.ECSScope = int(subnet.SourceScope)
		}
	}
}

func texts(rrs []dns.RR) (out []string) {
	for _, rr := range rrs {
		out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return out
}

// why says it in one sentence.
func (e *Explanation) why(t *answer.Trace) string {
	switch {
	case e.Map.Version == 0:
		return "there is no map yet: control has sent none and none was on disk"
	case e.Zone == "":
		return "the name is in no zone of ours: refused"
	case !t.Exists:
		return fmt.Sprintf("the name does not exist in zone %s, and nothing does below it", e.Zone)
	case t.Delegated:
		return fmt.Sprintf("the name is delegated away in zone %s: the reply names the servers that answer for it", e.Zone)
	case e.Service == "" && e.NoData:
		return fmt.Sprintf("the name exists in zone %s but has no %s record", e.Zone, e.Type)
	case e.Service == "":
		return fmt.Sprintf("a static record of zone %s, the same for everyone", e.Zone)
	}
	who := "everyone gets"
	switch t.Source {
	case answer.SourceECS:
		who = fmt.Sprintf("the client subnet %s gets", e.ECS)
	case answer.SourceResolver:
		who = fmt.Sprintf("the resolver's address %s gets", e.Client)
		if e.ECS.IsValid() && e.ECS.Bits() > 0 {
			who = fmt.Sprintf("the client subnet %s maps to no place, so the resolver's address %s gets", e.ECS, e.Client)
		}
	}
	what := "edge " + e.Edge
	if e.Edge == "" {
		what = "nothing (every edge is down and the rule says empty)"
	}
	if e.NoData && e.Edge != "" {
		what += fmt.Sprintf(", which has no %s record to answer with now", e.Type)
	}
	return fmt.Sprintf("%s rule %s (%s) of service %s, which answers with %s", who, e.Rule, e.Scope, e.Service, what)
}
