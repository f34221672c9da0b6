package parentds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const (
	oldDS = "11111 13 2 AA"
	newDS = "22222 13 2 BB"
)

// world is a resolver and name servers: records by server and question; no entry is no answer.
type world map[string][]string

func (w world) exchange(_ context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	records, ok := w[server+" "+q.Question[0].Name+" "+dns.TypeToString[q.Question[0].Qtype]]
	if !ok {
		return nil, errors.New("timeout")
	}
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = server != "192.0.2.1:53"
	for _, text := range records {
		section := &m.Answer
		if rest, authority := strings.CutPrefix(text, "authority: "); authority {
			text, section = rest, &m.Ns
		}
		switch text {
		case "lame":
			m.Authoritative = false
		case "refused":
			m.Rcode = dns.RcodeRefused
		case "nxdomain":
			m.Rcode = dns.RcodeNameError
		case "other":
			m.Id++
		default:
			rr, err := dns.NewRR(text)
			if err != nil {
				return nil, err
			}
			*section = append(*section, rr)
		}
	}
	return m, nil
}

// example is a world in which gslb.example.net is delegated from example.net, whose name servers are a (two addresses) and b.
func example() world {
	const resolver = "192.0.2.1:53 "
	return world{
		resolver + "example.net. SOA":     {"example.net. 60 IN SOA a. h. 1 2 3 4 5"},
		resolver + "example.net. NS":      {"example.net. 60 IN NS b.ns.test.", "example.net. 60 IN NS A.ns.test."},
		resolver + "a.ns.test. A":         {"a.ns.test. 60 IN A 192.0.2.11"},
		resolver + "a.ns.test. AAAA":      {"a.ns.test. 60 IN AAAA 2001:db8::11"},
		resolver + "b.ns.test. A":         {"b.ns.test. 60 IN CNAME c.ns.test.", "c.ns.test. 60 IN A 192.0.2.12"},
		resolver + "b.ns.test. AAAA":      {},
		"192.0.2.11:53 " + dsQuestion:     {"gslb.example.net. 3600 IN DS " + newDS, "gslb.example.net. 3600 IN DS " + oldDS},
		"192.0.2.12:53 " + dsQuestion:     {"GSLB.example.net. 7200 IN DS " + strings.ToLower(newDS)},
		"[2001:db8::11]:53 " + dsQuestion: {"gslb.example.net. 3600 IN DS " + newDS},
	}
}

const dsQuestion = "gslb.example.net. DS"

// TestAsk: every address of every name server of the parent is asked; what each says is there by itself, and the verdict needs
// all name servers and says no more than they do.
//
// Covers: issue5 dnssec parent
func TestAsk(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(world)
		want   string // verdict on newDS
	}{
		{"all have it", func(world) {}, "complete has 2h0m0s"},
		{"one address is silent", func(w world) { delete(w, "[2001:db8::11]:53 "+dsQuestion) }, "complete has 2h0m0s"},
		{"a name server is silent", func(w world) { delete(w, "192.0.2.12:53 "+dsQuestion) }, "1h0m0s"},
		{"one has the old one", func(w world) { w["192.0.2.12:53 "+dsQuestion] = []string{"gslb.example.net. 60 IN DS " + oldDS} }, "complete 1h0m0s"},
		{"one address has none", func(w world) { w["[2001:db8::11]:53 "+dsQuestion] = nil }, "complete 2h0m0s"},
		{"none has any", func(w world) {
			for _, s := range []string{"192.0.2.11:53 ", "192.0.2.12:53 ", "[2001:db8::11]:53 "} {
				w[s+dsQuestion] = nil
			}
		}, "complete none 0s"},
		{"one is lame", func(w world) { w["192.0.2.12:53 "+dsQuestion] = append(w["192.0.2.12:53 "+dsQuestion], "lame") }, "1h0m0s"},
		{"one refuses", func(w world) { w["192.0.2.12:53 "+dsQuestion] = []string{"refused"} }, "1h0m0s"},
		{"one does not know the zone", func(w world) { w["192.0.2.12:53 "+dsQuestion] = []string{"nxdomain"} }, "1h0m0s"},
		{"one answers something else", func(w world) { w["192.0.2.12:53 "+dsQuestion] = []string{"other"} }, "1h0m0s"},
		{"a DS of another name", func(w world) { w["192.0.2.12:53 "+dsQuestion] = []string{"x.example.net. 60 IN DS " + newDS} }, "complete 1h0m0s"},
		{"no address of one", func(w world) { w["192.0.2.1:53 b.ns.test. A"] = nil }, "1h0m0s"},
		{"no name server", func(w world) { w["192.0.2.1:53 example.net. NS"] = nil }, "0s"},
		{"no resolver", func(w world) { clear(w) }, "0s"},
		{"the zone above is further up", func(w world) {
			w["192.0.2.1:53 example.net. SOA"] = []string{"authority: net. 60 IN SOA a. h. 1 2 3 4 5"}
			w["192.0.2.1:53 net. NS"] = []string{"net. 60 IN NS a.ns.test."}
		}, "complete has 1h0m0s"},
		{"an SOA of elsewhere", func(w world) {
			w["192.0.2.1:53 example.net. SOA"] = []string{"authority: other.test. 60 IN SOA a. h. 1 2 3 4 5"}
		}, "0s"},
	} {
		w := example()
		row.change(w)
		a := Asker{Resolver: "192.0.2.1:53", Exchange: w.exchange}
		l := a.Ask(t.Context(), "gslb.example.net.")
		v := l.Judge(newDS)
		got := ""
		for _, x := range []struct {
			on   bool
			word string
		}{{v.Complete, "complete "}, {v.Has, "has "}, {v.None, "none "}} {
			if x.on {
				got += x.word
			}
		}
		if got += v.TTL.String(); got != row.want {
			t.Errorf("%s: %s, want %s: %+v", row.name, got, row.want, l)
		}
	}
	l := (&Asker{Resolver: "192.0.2.1:53", Exchange: example().exchange}).Ask(t.Context(), "gslb.example.net.")
	if l.Parent != "example.net." || len(l.Servers) != 3 || l.Servers[0].Name != "a.ns.test." || fmt.Sprint(l.Servers[0].DS) != "["+oldDS+" "+newDS+"]" ||
		!l.Any([]string{"x", oldDS}) || l.Any([]string{"x"}) || !l.Judge("x", newDS).Has || l.Judge("x").Has || l.Judge().Has {
		t.Errorf("%+v", l)
	}
	if l := (&Asker{}).Ask(t.Context(), "."); l.Err == nil || l.Judge("").Complete {
		t.Errorf("the root: %+v", l)
	}
}

// TestAskOverTCP: questions go over TCP, and a server that takes the connection and says nothing is given up when the caller
// is tired of it.
//
// Covers: issue5 dnssec parent
func TestAskOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeSOA {
			m.Answer = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "example.net.", Rrtype: dns.TypeSOA, Class: dns.ClassINET}, Ns: "a.", Mbox: "h."}}
		}
		_ = w.WriteMsg(m) // the test sees what is missing
	})}
	go func() { _ = s.ActivateAndServe() }()
	defer func() { _ = s.Shutdown() }()
	got := (&Asker{Resolver: l.Addr().String()}).Ask(t.Context(), "gslb.example.net.")
	if got.Parent != "example.net." || got.Err == nil || !strings.Contains(got.Err.Error(), "knows no name server") {
		t.Errorf("%+v", got)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if got := (&Asker{Resolver: silent.Addr().String()}).Ask(ctx, "gslb.example.net."); got.Err == nil {
		t.Errorf("%+v", got)
	}
}
