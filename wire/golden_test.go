package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/v1 anew: only when a message got a new field")

// message is one that travels: an example with every field set, and how it is read.
type message struct {
	name  string
	value any
	read  func([]byte) (any, error)
}

func of[T any](name string, value T) message {
	return message{name: name, value: &value, read: func(data []byte) (any, error) { return decode[T](data) }}
}

func messages() []message {
	at := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	ack := report.Ack{Snapshot: "dns", Version: 7, Reason: "MAP_INVALID: a service has no rule", Using: 6, Took: 3 * time.Millisecond}
	observation := report.Observation{
		Task: "00112233445566778899", Point: "p1", Latency: 21 * time.Millisecond, Cause: report.CauseStatus, Detail: "HTTP 503", Status: 503,
		Address: netip.MustParseAddrPort("192.0.2.1:443"), Age: time.Second, CertExpiry: at,
		Phases: report.Phases{DNS: 1, Connect: 2, TLS: 3, FirstByte: 4, Total: 10},
	}
	task := snapshot.ProbeTask{
		ID: "00112233445566778899", Kind: "https", Address: "192.0.2.1", Port: 443, URL: "https://www.example.com/healthz", Method: "GET",
		Interval: 30 * time.Second, Timeout: 5 * time.Second, Statuses: []snapshot.StatusRange{{Min: 200, Max: 299}}, Body: "ok",
		MaxLatency: time.Second, TLSVerify: true, SlowAbove: 100 * time.Millisecond, Fall: 3, Rise: 2,
		Family: "ipv6", CertDays: 7,
	}
	status := report.NodeStatus{
		Version: "1.3.0", Roles: []string{"dns", "probe"}, Labels: map[string]string{"country": "CN"}, Listeners: map[string]string{"dns": "192.0.2.9:53"},
		Wall: at, Uptime: time.Hour, Map: &report.NodeMap{Version: 7, Created: at, Age: time.Second, FromDisk: true, Queries: 9},
		Tasks: &report.NodeTasks{Version: 4, Tasks: 3, Spooled: 2, Dropped: 1}, Expires: at, Trouble: []string{"CLOCK_OFF: 3600 s"},
	}
	dns := dnsMap(7, 2)
	dns.Created, dns.At = at, time.Hour
	newer := dnsMap(8, 2)
	probe := &snapshot.Probe{Version: 4, Point: "p1", Tasks: []snapshot.ProbeTask{task}}
	question := report.EdgeQuestion{
		URL: "https://www.example.com/", Method: "HEAD", Headers: []string{"A: b"}, Client: netip.MustParseAddr("192.0.2.7"), Country: "CN", Session: "a",
	}
	origin := report.EdgeOrigin{
		Origin: "a", Enabled: true, Draining: true, Probed: true, Healthy: true, Good: 3, Seen: 4, Samples: 4, Needed: 3, Latency: time.Millisecond,
		OutFor: time.Second, Share: 0.5, Failure: "status 503",
	}
	status.Edge = &report.NodeEdge{
		Version: 9, Created: at, FromDisk: true, Connections: 2, Origins: 2, Healthy: 1, Left: 1,
		Groups: []report.EdgeGroup{{Service: "shop", Group: "web", Origins: []report.EdgeOrigin{origin}}},
	}
	explained := report.EdgeAnswer{
		URL: "https://www.example.com/", Service: "shop", Route: "all", Domain: "www.example.com", Path: "/*", Status: 503, Reason: "no_origin", Location: "x",
		Rules:  []report.EdgeRule{{Set: "front", Rule: "all", Fired: true, Why: "x"}},
		Access: "x", Group: "web", Session: "x",
		Steps:  []report.EdgeStep{{Name: "healthy", Kept: []string{"a"}, Without: []report.EdgeWithout{{Origin: "b", Why: "x"}}, Note: "x"}},
		Origin: "a", Asks: "GET x", Host: "x", Request: []string{"x"}, Response: []string{"x"}, Assumed: []string{"x"}, Version: 9,
		Origins: []report.EdgeOrigin{origin},
	}
	return []message{
		of("application", pki.Application{
			Token: "0011223344.secret.hash", Name: "p1", Roles: []string{"probe"}, Labels: map[string]string{"isp": "chinatelecom"},
			Request: []byte{1, 2, 3}, Version: "1.3.0", Address: "192.0.2.9",
		}),
		of("credential", pki.Credential{
			Certificate: []byte("PEM"), Authority: []byte("PEM"), Lifetime: time.Hour, Cluster: "steerpoint", Name: "p1", Roles: []string{"probe"},
		}),
		of("refusal", pki.Refusal{Code: pki.NodeRevoked, What: "node p1 was revoked", Do: "join again", Status: http.StatusForbidden}),
		of("renewal", renewal{Request: []byte{1, 2, 3}}),
		of("ack", ack),
		of("observations", batch{ID: "one", Observations: []report.Observation{observation, {Task: "t", OK: true}}}),
		of("result", answer{ID: "q1", Observation: &observation, Failure: "none"}),
		of("explained", answer{ID: "q2", Answer: &explained}),
		of("status", status),
		of("hello", Hello{Protocol: 1, Program: "1.3.0", Node: "p1", KeepAlive: 5 * time.Second}),
		of("state", NodeState{Drained: true}),
		of("ask", Ask{ID: "q1", Task: task, Timeout: time.Second}),
		of("edgeask", EdgeAsk{ID: "q2", Question: question, Timeout: time.Second}),
		of("edge", snapshot.EdgePack{
			Edge:   &snapshot.Edge{Version: 9, Created: at, Services: []snapshot.EdgeService{{Name: "shop"}}},
			Sealed: &snapshot.Sealed{Envelope: []byte{1, 2, 3}},
		}),
		of("dns", *dns),
		of("dnsdelta", *snapshot.DiffDNS(dns, newer)),
		of("probe", *probe),
		of("probedelta", *snapshot.DiffProbe(probe, &snapshot.Probe{Version: 5, Point: "p1"})),
	}
}

func equal(a, b any) string {
	return cmp.Diff(a, b, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}),
		cmpopts.IgnoreUnexported(snapshot.DNS{}, snapshot.DNSService{}), cmpopts.EquateEmpty())
}

// Messages are written as they always were: a field that is renamed or dropped would not be found by a node that is
// one version older or newer.
//
// Covers: A7, issue3 version skew
func TestMessagesGolden(t *testing.T) {
	for _, m := range messages() {
		path := filepath.Join("testdata", "v1", m.name+".json")
		got, err := json.MarshalIndent(m.value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *rewrite {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is written otherwise than before (-before +now):\n%s", m.name, diff)
		}
		back, err := m.read(want)
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		if diff := equal(m.value, back); diff != "" {
			t.Errorf("%s is read otherwise than it was written:\n%s", m.name, diff)
		}
	}
}

// What a newer program adds anywhere in a message is skipped.
//
// Covers: A7, issue3 version skew
func TestMessagesOfANewerProgram(t *testing.T) {
	for _, m := range messages() {
		data, err := json.Marshal(m.value)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatal(err)
		}
		added := 0
		data, err = json.Marshal(enrich(plain, &added))
		if err != nil {
			t.Fatal(err)
		}
		back, err := m.read(data)
		if err != nil {
			t.Fatalf("%s with %d more fields: %v", m.name, added, err)
		}
		if diff := equal(m.value, back); diff != "" || added == 0 {
			t.Errorf("%s with %d more fields is read otherwise:\n%s", m.name, added, diff)
		}
	}
}

// enrich adds a field that nobody knows to every object but those whose keys are data.
func enrich(v any, added *int) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if k != "labels" && k != "listeners" {
				v[k] = enrich(inner, added)
			}
		}
		*added++
		v["zz_of_a_later_version"] = map[string]any{"list": []any{1.5, "x", nil, true}}
	case []any:
		for i := range v {
			v[i] = enrich(v[i], added)
		}
	}
	return v
}

// Messages of the first version, kept in testdata/oldest as they were, are read for ever. What they lack is zero.
//
// Covers: A7, issue3 version skew
func TestMessagesOfAnOlderProgram(t *testing.T) {
	for _, m := range messages() {
		data, err := os.ReadFile(filepath.Join("testdata", "oldest", m.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		back, err := m.read(data)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if reflect.ValueOf(back).Elem().IsZero() {
			t.Errorf("%s: nothing of it is read", m.name)
		}
	}
}

// A stream of a newer control: frames of unknown kinds, plain and packed, are skipped, and what is known is taken.
//
// Covers: A7, issue3 version skew
func TestStreamOfANewerControl(t *testing.T) {
	stream, err := os.ReadFile(filepath.Join("testdata", "v1", "stream.frames"))
	if *rewrite {
		stream, err = exampleStream(500)
		if err == nil {
			err = os.WriteFile(filepath.Join("testdata", "v1", "stream.frames"), stream, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(ClientConfig{AuthorityHash: "x", Servers: []string{"https://x"}})
	defer c.Close()
	in := &patient{body: bytes.NewReader(stream), silence: patience, cancel: func(error) {}}
	var got []Update
	err = c.read(context.Background(), in, dnsFrame(func(u Update) error {
		got = append(got, u)
		return nil
	}))
	wantCode(t, err, pki.NodeRevoked)
	if len(got) != 3 || got[0].State == nil || got[1].Full == nil || got[2].Full == nil {
		t.Fatalf("updates %+v, want a state and two maps", got)
	}
	if len(got[1].Full.Services) != 2 || len(got[2].Full.Services) != 500 {
		t.Errorf("maps of %d and %d services", len(got[1].Full.Services), len(got[2].Full.Services))
	}
	if in.silence != 3*time.Second {
		t.Errorf("silence %s, want three of the keep-alives that control says", in.silence)
	}
}

func exampleStream(services int) ([]byte, error) {
	var out bytes.Buffer
	for _, f := range []struct {
		kind  byte
		value any
	}{
		{frameHello, map[string]any{"protocol": 1, "program": "1.4.0", "node": "ns1", "keepAlive": time.Second, "later": true}},
		{frameState, map[string]any{"drained": true, "later": 1}},
		{42, "of a later version"},
		{frameFull, dnsMap(7, 2)},
		{frameKeepAlive, nil},
		{frameAsk, Ask{ID: "not for a name server"}},
		{43, bytes.Repeat([]byte("later "), 100*services)},
		{frameFull, dnsMap(8, services)},
		{frameEnd, pki.Refuse(pki.NodeRevoked, "revoked", "")},
	} {
		encoded, err := jsonFrame(f.kind, f.value)
		if err != nil {
			return nil, err
		}
		out.Write(encoded)
	}
	return out.Bytes(), nil
}
