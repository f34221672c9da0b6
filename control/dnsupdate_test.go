package control

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/control/api"
	"steerpoint/report"
)

const dynamicZone = `apiVersion: steerpoint/v1
kind: Zone
name: plain
zone: plain.example
steering: false
ns: [{name: ns1.elsewhere.test}]
records:
  - {name: www, type: A, values: [192.0.2.1]}
tsigKeys:
  - {name: acme.example, secretFrom: {secret: updates, key: k}}
  - {name: all.example, secretFrom: {secret: updates, key: k}}
update:
  - {tsigKey: acme.example}
  - {tsigKey: all.example, names: ["*"], types: [A, TXT, CNAME], prefix: 192.0.2.0/24}
`

// updating is a control whose zone takes updates.
func updating(t *testing.T, dir string, ck *clocks) *rig {
	return start(t, dir, ck, func(_ *Config, d *Deps) { d.updateWait = time.Minute })
}

// send hands an update on as a name server does; lines are "NAME TTL TYPE DATA" to add, "-NAME TYPE DATA" to take away.
func (r *rig) send(id, key string, lines ...string) report.UpdateResult {
	r.t.Helper()
	m := new(dns.Msg).SetUpdate("plain.example.")
	for _, line := range lines {
		text, drop := strings.CutPrefix(line, "-")
		if drop {
			name, rest, _ := strings.Cut(text, " ")
			text = name + " 0 " + rest
		}
		rr, err := dns.NewRR(text)
		if err != nil {
			r.t.Fatal(line, err)
		}
		if drop {
			m.Remove([]dns.RR{rr})
		} else {
			m.Insert([]dns.RR{rr})
		}
	}
	b, err := m.Pack()
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := r.Update(r.t.Context(), "local", report.Update{ID: id, Zone: "plain.example.", Key: key, Client: "192.0.2.77", Message: b})
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// published are the records of a name in the newest map.
func (r *rig) published(name, rrType string) []string {
	d, _, _ := r.out.latest()
	for i := range d.Zones {
		for j := range d.Zones[i].Records {
			if rec := &d.Zones[i].Records[j]; rec.Name == name && rec.Type == rrType {
				return slices.Sorted(slices.Values(rec.Data))
			}
		}
	}
	return nil
}

// TestUpdate: what is answered NOERROR is in the map that was handed out; the resource says who wrote it, and neither an apply of
// the Zone nor a restart loses or changes it; what the Zone has wins where both have something.
//
// Covers: issue5 update, rfc 2136
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	r := updating(t, dir, nil)
	r.apply(zoneYAML, dynamicZone, secretYAML("updates", "k", tsigValue))
	const name = "_acme-challenge.www.plain.example."
	want := func(res report.UpdateResult, rcode uint16, values ...string) {
		t.Helper()
		if got := r.published(name, "TXT"); res.Rcode != rcode || !slices.Equal(got, values) {
			t.Errorf("%s (%s): published are %v, want %s %v", dns.RcodeToString[int(res.Rcode)], res.Reason, got, dns.RcodeToString[int(rcode)], values)
		}
	}
	want(r.send("1", "acme.example.", name+` 60 TXT "one"`, name+` 60 TXT "two"`), dns.RcodeSuccess, `"one"`, `"two"`)
	want(r.send("2", "acme.example.", "-"+name+` TXT "one"`), dns.RcodeSuccess, `"two"`)
	want(r.send("3", "acme.example.", "-"+name+` TXT "one"`), dns.RcodeSuccess, `"two"`)
	want(r.send("4", "acme.example.", "www.plain.example. 60 A 192.0.2.9"), dns.RcodeRefused, `"two"`)
	want(r.send("5", "other.example.", name+` 60 TXT "x"`), dns.RcodeRefused, `"two"`)
	want(r.send("6", "all.example.", "www.plain.example. 60 A 192.0.2.9"), dns.RcodeRefused, `"two"`)
	want(r.send("7", "all.example.", "www.plain.example. 60 CNAME a.example."), dns.RcodeSuccess, `"two"`) // left out: RFC 2136 section 3.4.2.2
	want(r.send("8", "all.example.", "new.plain.example. 60 A 192.0.2.9"), dns.RcodeSuccess, `"two"`)

	// The same message again is answered as before, and is not done again.
	want(r.send("1", "acme.example.", name+` 60 TXT "one"`, name+` 60 TXT "two"`), dns.RcodeSuccess, `"two"`)

	doc := ok[api.Resource](t)(r.client.Get(t.Context(), "dynamicrecords", "plain"))
	if doc.Actor != "key all.example" || doc.ApplySet != "" || !strings.Contains(string(doc.Document), "_acme-challenge.www") {
		t.Errorf("the resource: %+v", doc)
	}
	q := request(dynamicZone, zoneYAML, secretYAML("updates", "k", tsigValue))
	q.Prune = true
	if p := ok[api.Plan](t)(r.client.Apply(t.Context(), q)); len(p.Changes) != 0 {
		t.Errorf("applying the same again changes %+v", p.Changes)
	}
	want(report.UpdateResult{}, 0, `"two"`)

	taken := strings.Replace(dynamicZone, "records:\n", "records:\n  - {name: new, type: A, values: [198.51.100.1]}\n", 1)
	p := r.apply(taken)
	if !slices.ContainsFunc(p.Warnings, func(w api.Warning) bool { return w.Code == "SPEC_DYNAMIC_NOT_SERVED" }) {
		t.Errorf("nothing warns of what is not served any more: %+v", p.Warnings)
	}
	r.await("the Zone's own record is served", func() bool { return slices.Equal(r.published("new.plain.example.", "A"), []string{"198.51.100.1"}) })
	r.await("the alarm", func() bool { return strings.Contains(r.alarmText(api.AlarmResource), "new A") })
	want(r.send("9", "all.example.", "new.plain.example. 60 A 192.0.2.10"), dns.RcodeRefused, `"two"`)
	r.apply(dynamicZone)
	r.await("the dynamic record is served again", func() bool { return slices.Equal(r.published("new.plain.example.", "A"), []string{"192.0.2.9"}) })
	r.await("the end of the alarm", func() bool { return !r.alarmed(api.AlarmResource) })
	r.stop()

	r = updating(t, dir, r.clocks)
	r.await("the map of the restart has it", func() bool {
		d, _, _ := r.out.latest()
		return d != nil && slices.Equal(r.published(name, "TXT"), []string{`"two"`})
	})
	want(r.send("10", "acme.example.", "-"+name+` TXT "two"`), dns.RcodeSuccess)
	if res := r.send("11", "all.example.", "-new.plain.example. A 192.0.2.9"); res.Rcode != dns.RcodeSuccess {
		t.Errorf("%+v", res)
	}
	if _, err := r.client.Get(t.Context(), "dynamicrecords", "plain"); err == nil {
		t.Error("an empty resource stays behind")
	}
}

// TestUpdatesAtOnce: many clients that write at once, and somebody who applies meanwhile, lose nothing of each other.
//
// Covers: issue5 update
func TestUpdatesAtOnce(t *testing.T) {
	r := updating(t, t.TempDir(), nil)
	r.apply(zoneYAML, dynamicZone, secretYAML("updates", "k", tsigValue))
	const clients = 12
	var wg sync.WaitGroup
	results := make([]report.UpdateResult, 2*clients)
	for i := range results {
		wg.Go(func() { // two of each: the same message, as over two name servers
			results[i] = r.send(fmt.Sprint(i/2), "all.example.", fmt.Sprintf("c%d.plain.example. 60 A 192.0.2.%d", i/2, i/2+1))
		})
	}
	for i := range 4 {
		r.apply(strings.Replace(dynamicZone, "192.0.2.1]", fmt.Sprintf("198.51.100.%d]", i), 1))
	}
	wg.Wait()
	for i, res := range results {
		if res.Rcode != dns.RcodeSuccess {
			t.Errorf("%d: %+v", i, res)
		}
	}
	for i := range clients {
		if got := r.published(fmt.Sprintf("c%d.plain.example.", i), "A"); len(got) != 1 {
			t.Errorf("client %d has %v", i, got)
		}
	}
	h := ok[api.RevisionPage](t)(r.client.History(t.Context(), "dynamicrecords", "plain", api.HistoryParams{}))
	if len(h.Revisions) != clients {
		t.Errorf("%d revisions of %d updates", len(h.Revisions), clients)
	}
}

// TestUpdateThatIsNotPublished: while no map with the change is taken the client is told SERVFAIL, and the same message later is
// answered by what holds then.
//
// Covers: issue5 update, issue5 update nodes
func TestUpdateThatIsNotPublished(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) { d.updateWait = 2 * time.Second })
	r.apply(zoneYAML, dynamicZone, secretYAML("updates", "k", tsigValue))
	r.await("a map", func() bool { d, _, _ := r.out.latest(); return d != nil && len(d.Zones) == 2 })
	r.out.fail(fmt.Errorf("no"))
	const line = `_acme-challenge.plain.example. 60 TXT "x"`
	if res := r.send("1", "acme.example.", line); res.Rcode != dns.RcodeServerFailure || !strings.Contains(res.Reason, "no map with it") {
		t.Errorf("%+v", res)
	}
	r.out.fail(nil)
	r.await("the map is taken", func() bool { return r.published("_acme-challenge.plain.example.", "TXT") != nil })
	r.await("the same message succeeds", func() bool { return r.send("1", "acme.example.", line).Rcode == dns.RcodeSuccess })
}
