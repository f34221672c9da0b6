package edge

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"steerpoint/edge/explain"
	"steerpoint/report"
)

// What a gateway knows is told: health with what was wrong, and how a request would be decided by it, with the visitor's cookie.
// Telling takes no turn.
//
// Covers: issue6 gateway status, issue6 explain live, C6, E1
func TestLive(t *testing.T) {
	var well, ill atomic.Bool
	well.Store(true)
	a, b := named(t, "a", &well), named(t, "b", &ill)
	g, s := served(t, service(fmt.Sprintf(`originGroups:
  - name: web
    latencySensitivity: 1s
    sessionAffinity: true
    health: {path: /healthz, interval: 30s, timeout: 20s, scheme: http, sampleSize: 2, successfulSamples: 1}
    origins:
      - {name: a, address: "%s", scheme: http}
      - {name: b, address: "%s", scheme: http}
      - {name: c, address: "%s", scheme: http, enabled: false}
routes: [{name: all, originGroup: web}]
`, a, b, b)))
	var group report.EdgeGroup
	eventually(t, "every probe", func() bool {
		st := s.State()
		group = st.Groups[0]
		return group.Settled()
	})
	st := s.State()
	if st.Version != 1 || st.Origins != 2 || st.Healthy != 1 || st.Left != 0 || group.Service != "shop" || group.Group != "web" {
		t.Errorf("%+v", st)
	}
	for i, want := range []report.EdgeOrigin{
		{Origin: "a", Enabled: true, Probed: true, Healthy: true, Good: 2, Seen: 2, Samples: 2, Needed: 1, Share: 1},
		{Origin: "b", Enabled: true, Probed: true, Seen: 2, Samples: 2, Needed: 1, Share: 1, Failure: "status 503"},
		{Origin: "c", Probed: true, Samples: 2, Needed: 1, Share: 1},
	} {
		got := group.Origins[i]
		if want.Healthy && got.Latency <= 0 {
			t.Errorf("%s: no latency", got.Origin)
		}
		if got.Latency = 0; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	ask := func(q report.EdgeQuestion) *report.EdgeAnswer {
		t.Helper()
		x, err := s.Explain(&q)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const url = "http://a.example/x"
	first := ask(report.EdgeQuestion{URL: url, Client: netip.MustParseAddr("192.0.2.1")})
	if first.Origin != "a" || first.Version != 1 || len(first.Origins) != 3 || !strings.HasPrefix(first.Session, "there is no cookie") {
		t.Errorf("%+v", first)
	}
	if text := fmt.Sprint(first.Steps); !strings.Contains(text, "0 of the last 2 probes succeeded") {
		t.Errorf("why b is left out: %s", text)
	}
	k := dial(t, g.addr)
	k.send("GET /x?cache=private HTTP/1.1", "Host: a.example", "", "")
	res, _ := k.get("GET")
	cookie := strings.Split(res.Header.Get("Set-Cookie"), ";")[0]
	for header, want := range map[string]string{
		cookie:          "the cookie names a, which keeps it",
		"ASLBSA=forged": "the cookie is none of ours",
	} {
		if x := ask(report.EdgeQuestion{URL: url, Headers: []string{"Cookie: " + header}}); !strings.HasPrefix(x.Session, want) {
			t.Errorf("%s: %q", header, x.Session)
		}
	}
	if x := ask(report.EdgeQuestion{URL: url, Session: "b"}); x.Origin != "a" || !strings.HasPrefix(x.Session, "the cookie names b, which may not be asked now") {
		t.Errorf("%s %q", x.Origin, x.Session)
	}
	if x := ask(report.EdgeQuestion{URL: "http://nobody.example/"}); x.Status != 400 || len(x.Origins) != 0 {
		t.Errorf("%+v", x)
	}
	if _, err := s.Explain(&report.EdgeQuestion{URL: "ftp://x"}); !errors.Is(err, explain.ErrQuestion) {
		t.Errorf("no question: %v", err)
	}
}

// Of many origins those are told of that a person should look at.
//
// Covers: issue6 gateway status
func TestWorth(t *testing.T) {
	var groups []report.EdgeGroup
	for i := range 2 * maxReported {
		groups = append(groups, report.EdgeGroup{Service: "s", Group: fmt.Sprintf("g%03d", i), Origins: []report.EdgeOrigin{{Enabled: true, Healthy: true}}})
	}
	if kept, left := worth(groups[:maxReported]); len(kept) != maxReported || left != 0 {
		t.Errorf("%d kept, %d left out", len(kept), left)
	}
	groups[300].Origins[0].Healthy = false
	groups[310].Origins[0].OutFor = 1
	kept, left := worth(groups)
	names := map[string]bool{}
	for i := range kept {
		names[kept[i].Group] = true
	}
	if len(kept) != maxReported || left != maxReported || !names["g300"] || !names["g310"] || kept[0].Group != "g000" {
		t.Errorf("%d kept, %d left out, of those in trouble %t and %t", len(kept), left, names["g300"], names["g310"])
	}
}
