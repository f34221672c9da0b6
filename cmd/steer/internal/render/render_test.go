package render

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// at is a moment before now, which is when everything in these tests is looked at.
func at(now time.Time, d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

// sample is a status with one of everything that needs a person.
func sample(now time.Time) api.Status {
	east := api.EdgeView{
		Edge: "east", Enabled: true, Verdict: "down", Since: at(now, 12*time.Second), Observations: 40, Availability: 0.9, Why: "down at 1 of 1 points",
		Addresses: []api.AddressView{{Address: "127.0.0.11", Verdict: "down", Points: []api.VoteView{{Point: "local", State: "down", Fails: 5, Cause: "refused", Last: at(now, time.Second), AgeSeconds: 1}}}},
	}
	west := api.EdgeView{
		Edge: "west", Current: true, Enabled: true, Verdict: "up", Since: at(now, 3*time.Minute), ScoreMs: 1.25, Observations: 40, Availability: 1, Why: "answered",
		Addresses: []api.AddressView{{Address: "127.0.0.12", Verdict: "up", Points: []api.VoteView{{Point: "local", State: "up", Oks: 40, Last: at(now, 0)}}}},
	}
	off := api.EdgeView{Edge: "south", Verdict: "unknown", Held: true}
	lock := now.Add(4 * time.Second)
	return api.Status{
		Version: "0.1.0", Node: "n1", Now: now, Started: now.Add(-192 * time.Second),
		Listeners: map[string]string{"dns": "127.0.0.1:5300", "api": "127.0.0.1:7070"},
		Map:       api.MapStatus{Version: 14, Published: now.Add(-12 * time.Second)},
		Alarms:    []api.Alarm{{Code: api.AlarmFrozen, Since: now.Add(-time.Minute), Subject: "shop/office", Message: "does not move"}},
		Points:    []api.PointStatus{{Name: "local", Tasks: 4, LastSeen: at(now, time.Second)}, {Name: "far", Tasks: 1}, {Name: "sick", Drained: true}},
		Overrides: []api.OverrideStatus{{Name: "x", Kind: "force", Target: "shop/default", Edge: "west", Reason: "test", Actor: "ann", Active: true}},
		Services: []api.ServiceStatus{{
			Name: "shop", CNAME: "shop.gslb.example.net", Domains: []string{"shop.example.com"},
			Rules: []api.RuleStatus{
				{
					Rule: "default", Scope: "*", Probed: true, Mode: "failover", Edge: "west", Cause: "down", Since: now.Add(-12 * time.Second),
					Locked: true, LockedUntil: &lock, Edges: []api.EdgeView{east, west, off},
				},
				{
					Rule: "office", Scope: "cidr=198.51.100.0/24", Probed: true, Mode: "weighted", Set: []string{"west", "east"}, Since: now, AllDown: true, Frozen: true, Held: "would move to west, cause down",
					Edges: []api.EdgeView{{Edge: "west", Enabled: true, Verdict: "down", Share: 0.625}, {Edge: "east", Enabled: true, Verdict: "down", Share: 0.375}}, ScheduleNext: &lock,
				},
			},
		}},
	}
}

// compare shows what differs, line by line.
func compare(t *testing.T, got, want string) {
	t.Helper()
	if d := cmp.Diff(strings.Split(strings.TrimPrefix(want, "\n"), "\n"), strings.Split(got, "\n")); d != "" {
		t.Error(d)
	}
}

func TestStatus(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	Status(&b, text.Painter{}, sample(now))
	compare(t, b.String(), `
steer 0.1.0 on n1, up 3m12s; map 14, published 12s ago
listens: api 127.0.0.1:7070, dns 127.0.0.1:5300
ALARM_FROZEN shop/office does not move, since 1m0s ago
force shop/default -> west: until it is ended: test, by ann
silent point far: last result never
drained point sick: its votes do not count

  POINT  STATE       LABELS  TASKS  NEWEST RESULT
  local  -           -       4      1s ago
  far    -           -       1      never
  sick   -, drained  -       0      never

shop  shop.gslb.example.net  shop.example.com
  RULE     SCOPE                 MODE      ANSWERS             SINCE    CAUSE  EDGES                          STATE
  default  *                     failover  west                12s ago  down   east down, west up, south off  locked for 4s
  office   cidr=198.51.100.0/24  weighted  west 62%, east 38%  now      -      west down, east down           every edge is down; frozen, would move to west, cause down; schedule changes in 4s
`)
	b.Reset()
	Status(&b, text.Painter{}, api.Status{Now: now})
	if !strings.Contains(b.String(), "no service yet") {
		t.Errorf("an empty server:\n%s", b.String())
	}
}

func TestService(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := sample(now)
	s.Services[0].Rules = s.Services[0].Rules[:1]
	s.Alarms, s.Overrides, s.Points = nil, nil, nil
	var b strings.Builder
	Service(&b, text.Painter{}, s)
	compare(t, b.String(), `
steer 0.1.0 on n1, up 3m12s; map 14, published 12s ago
listens: api 127.0.0.1:7070, dns 127.0.0.1:5300

shop  shop.gslb.example.net  shop.example.com
  default  scope *  failover -> west since 12s ago (down)  locked for 4s
       EDGE   VERDICT         SINCE     SCORE  AVAILABLE     WHY
       east   down            12s ago   -      90.0% of 40   down at 1 of 1 points
    *  west   up              3m0s ago  1.2ms  100.0% of 40  answered
       south  unknown (held)  -         -      -
      EDGE  ADDRESS     VERDICT  POINT  HOLDS  RUN                         NEWEST
      east  127.0.0.11  down     local  down   5 failed in a row, refused  1s ago
      west  127.0.0.12  up       local  up     40 ok in a row              0s ago
`)
}

func TestPlan(t *testing.T) {
	var b strings.Builder
	Plan(&b, text.Painter{}, api.Plan{
		Changes: []api.Change{
			{Action: api.ActionCreate, Kind: "Zone", Name: "gslb"},
			{Action: api.ActionUpdate, Kind: "Service", Name: "shop", Lines: []string{"rule default: edges east, west -> west, east"}},
			{Action: api.ActionDelete, Kind: "Service", Name: "old"},
		},
		Unchanged: 2,
		Answers:   []api.AnswerChange{{Service: "shop", Rule: "default", Scope: "*", From: "east", To: "west", Cause: "config"}, {Service: "old", Rule: "default", From: "a"}},
		Warnings:  []api.Warning{{Code: "SPEC_UNUSED_EDGE", Message: "no rule uses it", Where: "shop.yaml:7"}},
	})
	compare(t, b.String(), `
+ zone gslb
~ service shop
    rule default: edges east, west -> west, east
- service old
rules that would answer differently at once:
    shop/default  *  east -> west  config
    old/default   -  a -> ends
warning: shop.yaml:7: no rule uses it [SPEC_UNUSED_EDGE]
1 to create, 1 to update, 1 to delete, 2 unchanged
`)
	b.Reset()
	Plan(&b, text.Painter{}, api.Plan{Unchanged: 1})
	compare(t, b.String(), "nothing to do: 1 resource is already so\n")
}

func TestSwitches(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	var b strings.Builder
	Switches(&b, text.Painter{}, now, []api.Switch{
		{
			Time: now.Add(-12 * time.Second), Service: "shop", Rule: "default", Scope: "*", From: "east", To: "west", Cause: "down", Reason: "east is down at 1 of 1 points",
			DetectionSeconds: 2.25, Publication: &api.Publication{Seconds: 0.012},
		},
		{Time: now.Add(-time.Minute), Service: "shop", Rule: "default", Scope: "*", To: "east", Cause: "initial", Publication: &api.Publication{Seconds: 1, Missing: []string{"ns2"}}, Undone: &api.Undone{Seconds: 48}},
		{Time: now.Add(-time.Minute), Service: "shop", Rule: "office", From: "a", To: "b", Cause: "forced"},
	})
	compare(t, b.String(), `
TIME            AGO       RULE          SCOPE  MOVE              CAUSE    DETECTED IN  PUBLISHED IN    STOOD  WHY
05-01 11:59:48  12s ago   shop/default  *      east -> west      down     2.3s         12ms            still  east is down at 1 of 1 points
05-01 11:59:00  1m0s ago  shop/default  *      starts with east  initial  -            1s, not by ns2  48s
05-01 11:59:00  1m0s ago  shop/office   -      a -> b            forced   -            not yet         still
`)
	b.Reset()
	Switches(&b, text.Painter{}, now, nil)
	compare(t, b.String(), "no switch in that time\n")
}

func TestEvent(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	for want, e := range map[string]api.Event{
		"12:00:00.000  switch     shop/default  east -> west: down": {Kind: api.EventSwitch, Service: "shop", Rule: "default", Message: "east -> west: down"},
		"12:00:00.000  alarm      ALARM_FROZEN raised":              {Kind: api.EventAlarm, Message: "ALARM_FROZEN raised"},
		"12:00:00.000  suspended  shop/default  local has no vote":  {Kind: api.EventSuspended, Rule: "shop/default", Message: "local has no vote"},
	} {
		var b strings.Builder
		e.Time = now
		Event(&b, text.Painter{}, e)
		compare(t, b.String(), want+"\n")
	}
}

func TestProbesAndResources(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	Probes(&b, text.Painter{}, api.ProbeResults{Results: []api.ProbeResult{
		{Point: "local", Edge: "east", Address: "127.0.0.11:80", OK: true, Status: 200, LatencyMs: 250.4, Phases: api.Phases{ConnectMs: 0.25, TotalMs: 251}, CertificateExpires: &now},
		{Point: "local", Address: "127.0.0.12:80", Cause: "refused", Detail: "connection refused"},
	}})
	compare(t, b.String(), `
POINT  EDGE  ADDRESS        RESULT        LATENCY  DNS    CONNECT  TLS    FIRST BYTE  TOTAL  DETAIL
local  east  127.0.0.11:80  ok 200        250ms    0.0ms  0.2ms    0.0ms  0.0ms       251ms  certificate until 2026-05-01
local  -     127.0.0.12:80  fail refused  0.0ms    0.0ms  0.0ms    0.0ms  0.0ms       0.0ms  connection refused
`)
	b.Reset()
	Resources(&b, text.Painter{}, now, []api.Resource{{Name: "shop", Revision: 7, Modified: now.Add(-time.Hour), Actor: "ann"}})
	compare(t, b.String(), `
NAME  REVISION  CHANGED   BY   SET
shop  7         1h0m ago  ann  -
`)
	b.Reset()
	Resources(&b, text.Painter{}, now, nil)
	Override(&b, text.Painter{}, api.OverrideResult{Message: "shop/default is forced to west", Answers: []api.AnswerChange{{Service: "shop", Rule: "default", Scope: "*", From: "east", To: "west"}}})
	Explanation(&b, api.Explanation{Text: []string{"one", "two"}})
	compare(t, b.String(), `
none
shop/default is forced to west
rules that answer differently now:
    shop/default  *  east -> west
one
two
`)
}

// TestAnswersWithoutAnEdge: what is answered instead of an edge while every edge is down, and a rule that probes nothing,
// are told as such.
func TestAnswersWithoutAnEdge(t *testing.T) {
	for when, want := range map[string]string{"": "a", "empty": "nothing", "all": "every edge", "first": "the first edge"} {
		if got := answers(api.RuleStatus{Edge: "a", AllDown: true, WhenAllDown: when}); got.Text != want || got.Color != text.Bad {
			t.Errorf("whenAllDown %q: %+v, want %s", when, got, want)
		}
	}
	rule := api.RuleStatus{Edges: []api.EdgeView{{Edge: "a", Enabled: true, Verdict: "unknown", Held: true}}}
	if got := edgesAtAGlance(rule); got != "a not probed" {
		t.Errorf("a rule that probes nothing: %q", got)
	}
}
