package render

import (
	"strings"
	"testing"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func seenBy(node string, healthy bool, latency float64) api.OriginView {
	return api.OriginView{Node: node, Healthy: healthy, Good: 4, Seen: 4, Samples: 4, Needed: 3, LatencyMs: latency, Share: 1}
}

// The gateways of a status: how many serve by the newest snapshot, and every origin with how it stands and why. Of many origins
// only those that are not as they should be are listed.
// Covers: issue6 gateway status
func TestGatewaySection(t *testing.T) {
	s := api.Status{Gateway: &api.EdgeStatus{Version: 41, Gateways: 2, Current: 1, Left: 3, Groups: []api.GroupStatus{{
		Service: "shop", Group: "web", Origins: []api.OriginStatus{
			{Origin: "a", Enabled: true, Healthy: 2, Seen: []api.OriginView{seenBy("fra1", true, 1.5), seenBy("tyo1", true, 120)}},
			{Origin: "b", Enabled: true, Healthy: 1, Seen: []api.OriginView{seenBy("fra1", true, 2), seenBy("tyo1", false, 0)}, Why: "not healthy: x (1 of 2 gateways)"},
			{Origin: "c", Enabled: true, Draining: true, Seen: []api.OriginView{seenBy("fra1", false, 0)}, Why: "not healthy: y"},
			{Origin: "d", Seen: []api.OriginView{seenBy("fra1", false, 0)}, Why: "left out: disabled"},
		},
	}}}}
	var b strings.Builder
	gatewaySection(&b, text.Painter{}, s, false)
	compare(t, b.String(), `

gateways: 1 of 2 serve by snapshot 41; 1 of 3 origins are healthy
  SERVICE  GROUP  ORIGIN  STATE          LATENCY        WHY
  shop     web    a       up             1.5ms - 120ms
  shop     web    b       up for 1 of 2  2.0ms          not healthy: x (1 of 2 gateways)
  shop     web    c       down           -              not healthy: y
  shop     web    d       disabled       -              left out: disabled
  and 3 more origin groups that are as they should be
`)
	g := &s.Gateway.Groups[0]
	for range originsAtAGlance {
		g.Origins = append(g.Origins, api.OriginStatus{Origin: "more", Enabled: true, Healthy: 1, Seen: []api.OriginView{seenBy("fra1", true, 1)}})
	}
	b.Reset()
	gatewaySection(&b, text.Painter{}, s, false)
	if strings.Contains(b.String(), "more  ") || !strings.Contains(b.String(), "not healthy: y") {
		t.Errorf("of many:\n%s", b.String())
	}
	b.Reset()
	if gatewaySection(&b, text.Painter{}, api.Status{}, true); b.Len() > 0 {
		t.Errorf("without a gateway: %q", b.String())
	}
}

// What gateways said of a request: the first in full, of others what they choose, and which did not say.
// Covers: issue6 explain live
func TestRequests(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	answer := func(origin string) *api.RequestAnswer {
		return &api.RequestAnswer{
			Service: "shop", Route: "all", Domain: "www.example.com", Path: "/*", Group: "web", Origin: origin, Asks: "GET http://x/", Host: "x", Version: 41,
			Session: "there is no cookie", Origins: []api.OriginStatus{{Origin: "a", Enabled: true, Healthy: 1, Seen: []api.OriginView{seenBy("n", true, 3)}, Why: "draining"}},
		}
	}
	var b strings.Builder
	Requests(&b, text.Painter{}, api.RequestAnswers{Left: 2, Gateways: []api.GatewayAnswer{
		{Node: "down", Time: at, Error: "it is busy"}, {Node: "fra1", Time: at, Answer: answer("a")}, {Node: "fra2", Time: at, Answer: answer("a")}, {Node: "tyo1", Time: at, Answer: answer("b")},
	}})
	compare(t, b.String(), `
gateway    down at 12:00:00.000: it is busy
gateway    fra1 at 12:00:00.000, by snapshot 41
route      shop/all: domain www.example.com, path /*
group      web
origins    a up, 4 of 4 probes good, 3.0ms; draining
session    there is no cookie
origin     a
asks       GET http://x/, Host: x
gateway    fra2 at 12:00:00.000, by snapshot 41: origin web/a
gateway    tyo1 at 12:00:00.000, by snapshot 41: origin web/b; why: --node tyo1
2 more gateways were not asked: --node NAME
`)
}

// The column of gateways is there where a node is one.
// Covers: issue6 gateway status
func TestNodesWithGateways(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	list := fleet(now)[1:2]
	g := list[0]
	g.Name, g.Roles, g.Map, g.Tasks = "fra1", []string{"edge"}, nil, nil
	for want, state := range map[string]*api.NodeEdge{
		"41, 3 of 4 origins up":        {Version: 41, Origins: 4, Healthy: 3},
		"41, 1 of 1 origin up, behind": {Version: 41, Origins: 1, Healthy: 1, Behind: true},
		"none":                         {Behind: true},
		"41, 0 of 0 origins up, from its disk, refused 42": {Version: 41, FromDisk: true, Refused: 42, Error: "SNAPSHOT_REFUSED: x"},
	} {
		g.Gateway = state
		var b strings.Builder
		Nodes(&b, text.Painter{}, now, 14, append(list, g))
		lines := strings.Split(b.String(), "\n")
		if !strings.HasSuffix(lines[0], "GATEWAY") || !strings.HasSuffix(lines[2], want) || !strings.HasSuffix(lines[1], "  -") {
			t.Errorf("want %s:\n%s", want, b.String())
		}
	}
}

// Where there are gateways, the live view has a line that says how they are, and below the rules each of them and each origin; it fits
// the terminal all the same. Where there are none it is as it was.
// Covers: issue6 gateway status, issue4 top
func TestTopWithGateways(t *testing.T) {
	v := topSample()
	draw := func() string { lines, _ := Top(text.Painter{}, v); return strings.Join(lines, "\n") }
	before := draw()
	if strings.Contains(before, "gateways:") || strings.Contains(before, "GATEWAY") || strings.Contains(before, "GROUP / ORIGIN") {
		t.Fatalf("without a gateway:\n%s", before)
	}
	n := v.Status.Nodes
	v.Status.Nodes = append(n[:len(n):len(n)],
		api.NodeView{Name: "fra1", State: api.NodeConnected, Connected: true, Gateway: &api.NodeEdge{Version: 41, Connections: 120, Origins: 2, Healthy: 2}},
		api.NodeView{Name: "tyo1", State: api.NodeConnected, Connected: true, Gateway: &api.NodeEdge{Version: 40, Behind: true, Connections: 7, Origins: 2, Healthy: 1}})
	v.Status.Gateway = &api.EdgeStatus{Version: 41, Gateways: 2, Current: 1, Left: 3, Groups: []api.GroupStatus{{
		Service: "shop", Group: "web", Origins: []api.OriginStatus{
			{Origin: "a", Enabled: true, Healthy: 2, Seen: []api.OriginView{seenBy("fra1", true, 1.5), seenBy("tyo1", true, 120)}},
			{Origin: "b", Enabled: true, Healthy: 1, Seen: []api.OriginView{seenBy("fra1", true, 2), seenBy("tyo1", false, 0)}, Why: "not healthy: x\x1b[2J (1 of 2 gateways)"},
			{Origin: "c", Seen: []api.OriginView{seenBy("fra1", false, 0)}, Why: "left out: disabled"},
		},
	}}}
	got := draw()
	if !strings.Contains(got, "\ngateways: 1 of 2 serve by snapshot 41; 1 of 2 origins are healthy\n") {
		t.Errorf("the line at the top is missing:\n%s", got)
	}
	_, below, _ := strings.Cut(got, "\nGATEWAY")
	below, _, _ = strings.Cut("GATEWAY"+below, "\nLAST SWITCHES")
	compare(t, below, `GATEWAY  STATE      CLIENTS  SNAPSHOT
fra1     connected  120      41, 2 of 2 origins up
tyo1     connected  7        40, 1 of 2 origins up, behind

GROUP / ORIGIN  STATE          LATENCY        WHY
shop/web        1 of 2 up
    a           up             1.5ms - 120ms
    b           up for 1 of 2  2.0ms          not healthy: x[2J (1 of 2 gateways)
    c           disabled       -              left out: disabled
and 3 more origin groups that are as they should be
`)
	for _, size := range [][2]int{{1, 1}, {40, 12}, {80, 24}} {
		v.Width, v.Height = size[0], size[1]
		for v.Scroll = 0; v.Scroll < 60; v.Scroll += 5 {
			lines, _ := Top(text.Painter{}, v)
			if len(lines) > v.Height {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, l := range lines {
				if text.Width(l) > v.Width {
					t.Errorf("%v: too long: %q", size, l)
				}
			}
		}
	}
	v.Width, v.Height = 100, 24
	_, most := Top(text.Painter{}, v)
	if v.Scroll = most; !strings.Contains(draw(), "more origin groups") {
		t.Errorf("the end cannot be scrolled to:\n%s", draw())
	}
}
