package answer

import (
	"github.com/miekg/dns"

	"steerpoint/authdns/internal/cookie"
	"steerpoint/authdns/internal/rrl"
)

// Limited says what became of a reply of which there were too many.
type Limited uint8

// What became of it.
const (
	NotLimited Limited = iota
	LimitedBadCookie
	LimitedTruncated
	LimitedDropped
)

func (l Limited) String() string {
	return [...]string{"", "badcookie", "truncated", "dropped"}[l]
}

// checkCookie notes what the query's cookie is worth.
func (r *Responder) checkCookie(x *Exchange) {
	x.cookie = cookie.Unknown
	if x.q.Cookie != nil && r.cfg.Cookies != nil {
		x.cookie = r.cfg.Cookies.Check(x.q.Cookie, x.Client, x.Unix)
	}
}

// largestUDP is the largest reply over UDP, whatever the client offers.
func (r *Responder) largestUDP(x *Exchange) int {
	if r.cfg.MaxUDPNoCookie > 0 && x.cookie == cookie.Unknown {
		return min(r.cfg.MaxUDPNoCookie, r.cfg.MaxUDP)
	}
	return r.cfg.MaxUDP
}

// overLimit counts a reply where its source may be forged, and changes or drops it when there were too many of its kind. Who
// shows a cookie of ours is where it says it is. Who can show one later is given one (RFC 7873 section 5.2.3); others are
// sent to TCP. Neither reply is larger than its query by more than an OPT record.
func (r *Responder) overLimit(x *Exchange, o *outcome) (drop bool) {
	if r.cfg.Limit == nil || x.TCP || x.cookie != cookie.Unknown {
		return false
	}
	kind, name := o.counted(x)
	verdict := r.cfg.Limit.Check(x.Client, kind, name, x.Now)
	if verdict == rrl.Send {
		return false
	}
	switch {
	case x.q.Cookie != nil && r.cfg.Cookies != nil:
		x.Result.Limit = LimitedBadCookie
		*o = refuse(dns.RcodeBadCookie)
	case verdict == rrl.Slip:
		x.Result.Limit = LimitedTruncated
		o.tc = true
	default:
		x.Result.Limit, x.Result.Drop = LimitedDropped, DropLimited
		return true
	}
	return false
}

// counted is what a reply is counted with. Answers that depend on who asks are not counted by name: a large resolver asks
// for one name once for each network of its clients; the limit of all replies holds for them.
func (o *outcome) counted(x *Exchange) (kind rrl.Kind, name []byte) {
	switch {
	case o.rcode == dns.RcodeNameError && o.soa != nil:
		return rrl.NXDomain, o.soa.name
	case x.q.HasECS && o.scope > 0:
		return rrl.Answer, nil
	case o.hops > 0 && x.chain[0].dname != nil, o.hops == 0 && o.dname != nil: // whatever name was made up below it
		return rrl.Answer, x.q.Name()[len(x.q.Name())-len(x.renamer(o).name):]
	case o.rcode != dns.RcodeSuccess:
		return rrl.Error, x.q.Name()
	case o.refer != nil: // for every name below the delegation
		return rrl.Answer, o.refer.name
	default:
		return rrl.Answer, x.q.Name()
	}
}
