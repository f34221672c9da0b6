package answer

import (
	"net/netip"

	"steerpoint/authdns/internal/wire"
)

// Trace tells how a reply came about.
type Trace struct {
	Version uint64 // of the map; 0: none
	Zone    string // "": no zone of ours
	Exists  bool   // the name exists
	// Delegated: the name lies at or below a delegation, to which the reply refers.
	Delegated bool
	Service   string // "": not a steered name

	// For steered names.
	Rule, Scope string
	Decision    uint64
	Degraded    bool
	Edge        string // "": the rule has nothing to answer with
	Value       uint16 // what the scope table said
	Source      Source
	Decider     netip.Addr // the address that decided
	Tailored    bool       // other clients may get another answer to this question
	Bits        int        // leading bits of the client subnet that decided
	TTL         uint32     // seconds, of the answer or of its denial
	NODATA      bool
}

// Trace answers like Respond and tells how the reply came about.
func (r *Responder) Trace(dst, req []byte, x *Exchange) ([]byte, Trace) {
	verdict := x.q.Parse(req)
	if verdict == wire.Short || verdict == wire.Response {
		return dst, Trace{}
	}
	o := r.decide(verdict, x)
	r.secure(x, &o)
	var t Trace
	if ix := r.index.Load(); ix != nil {
		t.Version = ix.Version
	}
	if o.node != nil {
		t.Zone, t.Exists = o.node.zone.text, o.rcode == 0
		t.Delegated = o.refer != nil
		t.NODATA = t.Exists && o.answer == nil && !t.Delegated
		t.TTL = o.ttl
		if o.soa != nil {
			t.TTL = o.soaTTL
		}
	}
	if p := &o.pick; p.rule != nil {
		s := o.service
		r := &s.src.Rules[p.value]
		t.Service, t.Rule, t.Scope = s.src.Name, r.Rule, r.Scope
		t.Decision, t.Degraded = r.Decision, r.Degraded
		t.Value, t.Source, t.Bits = p.value, p.source, p.bits
		t.Tailored = s.tailored[kindOf(x.q.Type)]
		if p.choice != nil {
			t.Edge = p.choice.edge
		}
		t.Decider = x.Client
		if p.source == SourceECS {
			t.Decider = x.q.ECS.Addr
		}
	}
	return r.encode(dst, x, &o), t
}
