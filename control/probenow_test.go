package control

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// A URL of every kind becomes the task a point takes; a method goes with HTTP alone.
//
// Covers: issue4 probe udp16, issue4 probe dns, issue4 probe icmp, issue4 probe grpc
func TestURLTasks(t *testing.T) {
	for url, want := range map[string]string{
		"https://www.example.com/x":                  "https www.example.com 443 https://www.example.com/x HEAD verify",
		"http://[2001:db8::1]:8080":                  "http 2001:db8::1 8080 http://[2001:db8::1]:8080/ HEAD",
		"tcp://192.0.2.1:25":                         "tcp 192.0.2.1 25",
		"udp16://www.example.com":                    "udp16 www.example.com 7077",
		"icmp://192.0.2.1":                           "icmp 192.0.2.1 0",
		"dns://192.0.2.53/www.example.com?type=aaaa": "dns 192.0.2.53 53 dns://192.0.2.53/www.example.com?type=AAAA&rcode=NOERROR",
		"grpc://www.example.com:50051/shop.v1.Cart":  "grpc www.example.com 50051 grpc://www.example.com:50051/shop.v1.Cart",
		"GRPCS://WWW.example.com":                    "grpcs www.example.com 443 grpcs://www.example.com/ verify",
	} {
		got, err := urlTask(&api.ProbeRequest{URL: url})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		verify := ""
		if got.TLSVerify {
			verify = "verify"
		}
		parts := []string{got.Kind, got.Address, strings.TrimSpace(strings.Join([]string{strconv.Itoa(got.Port), got.URL, got.Method, verify}, " "))}
		if text := strings.Join(strings.Fields(strings.Join(parts, " ")), " "); text != want {
			t.Errorf("%s: %s, want %s", url, text, want)
		}
	}
	for _, r := range []api.ProbeRequest{{URL: "udp://a.example:1"}, {URL: "icmp://192.0.2.1", Method: "GET"}, {URL: "grpcs://a.example/", Method: "HEAD"}} {
		if _, err := urlTask(&r); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}

// Families choose among addresses and make one probe of each family of a name.
//
// Covers: issue4 families apart
func TestOfFamilies(t *testing.T) {
	tasks := []snapshot.ProbeTask{
		{Kind: "tcp", Address: "192.0.2.1", Port: 1},
		{Kind: "tcp", Address: "2001:db8::1", Port: 1},
		{Kind: "tcp", Address: "a.example", Port: 1},
		{Kind: "tcp", Address: "b.example", Port: 1, Family: "ipv6"},
	}
	for _, row := range []struct {
		families []string
		want     string
	}{
		{nil, "192.0.2.1, 2001:db8::1, a.example, b.example ipv6"},
		{[]string{"ipv4"}, "192.0.2.1, a.example ipv4"},
		{[]string{"ipv4", "ipv6"}, "192.0.2.1, a.example ipv4, 2001:db8::1, a.example ipv6, b.example ipv6"},
	} {
		got, err := ofFamilies(slices.Clone(tasks), row.families)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, x := range got {
			parts = append(parts, strings.TrimSpace(x.Address+" "+x.Family))
		}
		if text := strings.Join(parts, ", "); text != row.want {
			t.Errorf("%v: %s, want %s", row.families, text, row.want)
		}
	}
	for _, families := range [][]string{{"ipv5"}, {"ipv4", "ipv4"}} {
		if _, err := ofFamilies(tasks, families); err == nil {
			t.Errorf("%v is taken", families)
		}
	}
	if _, err := ofFamilies(tasks[:1], []string{"ipv6"}); err == nil || !strings.Contains(err.Error(), "no ipv6 address") {
		t.Errorf("nothing left: %v", err)
	}
}

// A point of an older version probes whatever address a name has: that is no result of the family that was asked for.
//
// Covers: issue4 version skew of kinds
func TestProbeOfAnotherFamily(t *testing.T) {
	c := &Control{}
	c.deps.Probe = func(context.Context, string, snapshot.ProbeTask) (report.Observation, error) {
		return report.Observation{OK: true, Address: netip.MustParseAddrPort("192.0.2.1:80")}, nil
	}
	for family, want := range map[string]bool{"": true, "ipv4": true, "ipv6": false} {
		res := c.probeOne(t.Context(), "old", snapshot.ProbeTask{Kind: "tcp", Address: "a.example", Port: 80, Family: family})
		if res.OK != want || !want && (res.Cause != "local" || !strings.Contains(res.Detail, "point old is of an older version")) {
			t.Errorf("family %q: %+v", family, res)
		}
	}
}

// What a task without a URL asks for is shown as one that could be given to `steer probe`.
func TestTaskURL(t *testing.T) {
	for want, task := range map[string]snapshot.ProbeTask{
		"tcp://[2001:db8::1]:25": {Kind: "tcp", Address: "2001:db8::1", Port: 25},
		"udp16://192.0.2.1:7077": {Kind: "udp16", Address: "192.0.2.1", Port: 7077},
		"icmp://[2001:db8::1]":   {Kind: "icmp", Address: "2001:db8::1"},
		"icmp://a.example":       {Kind: "icmp", Address: "a.example"},
	} {
		if got := taskURL(&task); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A point of an older version takes the tasks it knows and names the others: an alarm says so until it takes all.
//
// Covers: issue4 version skew of kinds
func TestTasksRefusedByAPoint(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.join("p1", nil, "probe")
	r.connect("p1")
	const reason = `TASKS_REFUSED: PROBE_TASK_REFUSED: task 00 (icmp at 192.0.2.1 port 0): kind: "icmp" is not one this point can probe` + "\nPROBE_TASK_REFUSED: task 01"
	r.Acked("p1", report.Ack{Snapshot: report.SnapshotProbe, Version: 4, OK: true, Using: 4, Reason: reason})
	if a, on := r.alarm(api.AlarmPublish, "p1"); !on || !strings.Contains(a.Message, "point p1 did not take all its tasks") || !strings.Contains(a.Message, `"icmp" is not one this point can probe; PROBE_TASK_REFUSED: task 01`) {
		t.Errorf("alarm %v %+v", on, a)
	}
	r.Acked("p1", report.Ack{Snapshot: report.SnapshotProbe, Version: 5, OK: true, Using: 5})
	if _, on := r.alarm(api.AlarmPublish, "p1"); on {
		t.Error("it takes all its tasks, and the alarm stays")
	}
}

// A point that can do all kinds of probes but one says so once, and not anew with each result.
//
// Covers: issue4 probe icmp
func TestPointThatCannotDoOneKind(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, secureYAML)
	r.await("tasks", func() bool { _, p, _ := r.out.latest(); return p != nil && len(p.Tasks) == 3 })
	_, probe, _ := r.out.latest()
	see := func(task int, cause report.Cause) bool {
		r.ObserveLocal(report.Observation{Task: probe.Tasks[task].ID, Point: "local", OK: cause == "", Cause: cause, Detail: "this process may not send ICMP"})
		r.settle()
		_, on := r.alarm(api.AlarmPointLocal, "local")
		return on
	}
	for i, step := range []struct {
		task  int
		cause report.Cause
		on    bool
	}{{0, "", false}, {1, "local", true}, {0, "", true}, {2, "timeout", true}, {1, "local", true}, {1, "timeout", false}, {0, "", false}} {
		if on := see(step.task, step.cause); on != step.on {
			t.Errorf("step %d: alarm %v", i, on)
		}
	}
}
