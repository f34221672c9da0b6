package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/tape"
	"steerpoint/spec"
	"steerpoint/steering"
)

// maxExport bounds the text of one export: a million observations are some 60 MiB.
const maxExport = 64 << 20

type tapeInput struct {
	Service string `path:"service" maxLength:"63" doc:"name of the service" example:"shop"`
	From    string `query:"from" maxLength:"50" format:"date-time" doc:"RFC 3339 time; default: as far back as the tape goes"`
	To      string `query:"to" maxLength:"50" format:"date-time" doc:"RFC 3339 time; default: now"`
}

// tapeRoute serves the recorded timelines.
func (c *Control) tapeRoute(a huma.API) {
	op := operation(http.MethodGet, "/tape/{service}", "tape", "What was recorded of a service, as a timeline that steer replay runs", 0)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "A timeline (txtar)", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(a, op, func(ctx context.Context, in *tapeInput) (*huma.StreamResponse, error) {
		// One at a time: an export is made whole, up to its bound, before it is sent.
		if err := c.exports.enter(ctx); err != nil {
			return nil, asProblem(err)
		}
		defer c.exports.leave()
		text, err := c.exportTape(ctx, in)
		if err != nil {
			return nil, asProblem(err)
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			hc.SetHeader("Content-Type", "text/plain; charset=utf-8")
			_, _ = hc.BodyWriter().Write(text) // a client that went away needs no answer
		}}, nil
	})
}

// exportTape gives the timeline of a service between two times.
func (c *Control) exportTape(ctx context.Context, in *tapeInput) ([]byte, error) {
	now := c.clock.Moment().Wall
	to, err := c.parsePast("query.to", in.To, now)
	if err != nil {
		return nil, err
	}
	// What is due now is decided first, so that the end of the tape is whole.
	if err := c.do(ctx, func() { c.advance(c.clock.Moment()) }); err != nil {
		return nil, err
	}
	if c.tape != nil {
		if err := c.tape.Flush(ctx); err != nil {
			return nil, err
		}
	}
	r := tape.Open(c.tapeDir())
	oldest, _, err := r.Oldest()
	if err != nil {
		return nil, err
	}
	from, err := c.parsePast("query.from", in.From, oldest)
	if err != nil {
		return nil, err
	}
	if from = later(from, oldest); from.After(to) { // "the last 24 h" of a tape of an hour is that hour
		return nil, badRequest("query.to", "%s is not after %s, from when on there is something", to.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339))
	}
	x := newExport(in.Service, from, to)
	// The first checkpoint may be a moment younger than the name of its segment, which has milliseconds.
	start := from.Add(time.Millisecond)
	if start.After(to) {
		start = to
	}
	err = r.Range(start, to.Add(exportTail), func(rec *tape.Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return x.record(rec)
	})
	if err != nil {
		return nil, tapeProblem(err)
	}
	if !x.begun {
		return nil, notFound("no service was named %s between %s and %s", in.Service, x.from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	return x.text(c.cfg.Version, now), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// exportTail is for how long after the end decisions are looked for that belong before it: a due instant is evaluated a
// little after it.
const exportTail = time.Minute

// export makes the timeline of one service from a tape. Every line stands for one call of a machine of the service, at the
// instant the machine took it for, so that a replay tells each machine exactly what it was told.
type export struct {
	service  string
	from, to time.Time
	past     past
	calls    []engine.Call // of the record that is being played

	lines    bytes.Buffer
	sections []exportSection
	begun    bool
	halted   bool
	begin    steering.Instant
	end      steering.Instant // of the newest line, or record
	epoch    time.Time        // wall time of instant 0, at the beginning
	minute   time.Time        // the newest that a comment names
	points   map[string]bool

	resources string // name of the section that holds
	drained   []string
	advanced  map[string]steering.Instant // rules whose last call was to let time pass, and when
	answers   map[string]string           // what each rule answers
	open      map[string]*tape.Decision   // the newest decision of each rule, not written yet
	switches  map[string]int
	swallow   bool // what is decided by the newest record is in a state already
	blind     bool // nothing is known until the next checkpoint
	configs   []steering.RuleConfig
}

type exportSection struct{ name, text string }

func newExport(service string, from, to time.Time) *export {
	x := &export{
		service: service, from: from, to: to, past: past{only: service}, points: map[string]bool{}, advanced: map[string]steering.Instant{},
		answers: map[string]string{}, open: map[string]*tape.Decision{}, switches: map[string]int{},
	}
	x.past.trace = func(c *engine.Call) { x.calls = append(x.calls, *c) }
	return x
}

// record takes the next record of the tape.
func (x *export) record(r *tape.Record) error {
	if r.Wall.After(x.to) {
		if r.Kind == tape.Decided && r.Decision.At <= x.end && !x.swallow {
			x.decided(r.Decision)
		}
		return nil
	}
	if x.lines.Len() > maxExport {
		return problem(http.StatusUnprocessableEntity, api.CodeTooLarge, "Too much for one export",
			fmt.Sprintf("the timeline is larger than %d MiB: ask for a shorter time", maxExport>>20))
	}
	switch r.Kind {
	case tape.Decided:
		if x.begun && !x.swallow {
			x.decided(r.Decision)
		}
		return nil
	case tape.Gap:
		x.stop("records are missing here")
		return nil
	case tape.Checkpoint:
		return x.checkpoint(r)
	}
	if x.past.engine == nil || x.blind {
		return nil
	}
	x.calls, x.swallow = x.calls[:0], false
	x.past.play(r)
	x.end = max(x.end, r.Now)
	return x.follow(r)
}

// checkpoint begins with one, or goes on with it after a restart or a gap.
func (x *export) checkpoint(r *tape.Record) error {
	if r.Checkpoint.Start && x.begun {
		x.stop("steer " + r.Checkpoint.Version + " was started")
	}
	if x.past.engine != nil && !x.blind && !r.Checkpoint.Start {
		return nil // what was played says the same
	}
	x.swallow = true
	x.past.restore(r)
	x.blind = false
	return x.jump(r)
}

// stop ends what is known, until the next checkpoint.
func (x *export) stop(why string) {
	x.blind = true
	if x.begun && !x.halted {
		x.settle()
		fmt.Fprintf(&x.lines, "# %s\nhalt %s\n", why, seconds(x.end))
	}
	x.halted = true
}

// jump puts the states of all rules on the timeline, and the resources that hold.
func (x *export) jump(r *tape.Record) error {
	svc := x.svc()
	if svc == nil || r.Wall.Before(x.from) {
		return nil
	}
	x.configs = x.past.engine.Configs(x.service)
	states, at := x.states()
	if x.begun {
		if !x.halted {
			x.settle()
			fmt.Fprintf(&x.lines, "halt %s\n", seconds(x.end))
		}
		at = max(at, x.end)
	}
	if !x.begun {
		x.begin, x.begun = at, true
		x.epoch = r.Wall.Add(-r.Now)
		if len(x.past.engine.Drained(r.Now, x.service)) > 0 {
			fmt.Fprintf(&x.lines, "halt %s\n", seconds(at)) // nothing is evaluated before it is as it was
		}
	}
	x.end = max(x.end, at)
	if err := x.hold(r.Now, at); err != nil {
		return err
	}
	b, err := json.Marshal(struct {
		Wall  time.Time        `json:"wall"`
		Rules []steering.State `json:"rules"`
	}{r.Wall.Add(at - r.Now), states})
	if err != nil {
		return fmt.Errorf("states of %s: %w", x.service, err)
	}
	fmt.Fprintf(&x.lines, "state %s %s\n", seconds(at), x.section("state", "json", string(b)+"\n"))
	x.halted, x.swallow = false, true
	clear(x.advanced)
	clear(x.answers)
	for _, s := range states {
		if v, ok := x.past.engine.View(r.Now, s.Rule); ok {
			x.answers[s.Rule] = answerName(&v.Decision)
		}
	}
	return nil
}

// states gives those of the service's rules, and the earliest instant among them.
func (x *export) states() (states []steering.State, at steering.Instant) {
	for i, cfg := range x.configs {
		s, _ := x.past.engine.State(cfg.Key())
		states = append(states, s)
		if i == 0 || s.At < at {
			at = s.At
		}
	}
	return states, at
}

func (x *export) svc() *spec.Service {
	for _, s := range x.past.engine.Services() {
		if s.Name == x.service {
			return s
		}
	}
	return nil
}

// hold writes which resources and drains hold, where they differ from those before.
func (x *export) hold(now, at steering.Instant) error {
	changed, err := x.differs(now)
	if err != nil {
		return err
	}
	if changed.resources != "" {
		first := len(x.sections) == 0
		x.resources = x.section("service", "yaml", changed.resources)
		if !first {
			fmt.Fprintf(&x.lines, "apply %s %s\n", seconds(at), x.resources)
		}
	}
	for _, e := range changed.undrain {
		fmt.Fprintf(&x.lines, "undrain %s %s/%s\n", seconds(at), x.service, e)
	}
	for _, e := range changed.drain {
		fmt.Fprintf(&x.lines, "drain %s %s/%s\n", seconds(at), x.service, e)
	}
	x.drained = changed.drained
	return nil
}

type exportChange struct {
	resources               string // "": the same
	drain, undrain, drained []string
}

func (c *exportChange) kinds() int {
	n := len(c.drain) + len(c.undrain)
	if c.resources != "" {
		n++
	}
	return n
}

// differs compares what holds with what the timeline says.
func (x *export) differs(now steering.Instant) (c exportChange, err error) {
	text, err := x.yaml(x.svc())
	if err != nil {
		return c, err
	}
	held := ""
	for _, s := range x.sections {
		if s.name == x.resources {
			held = s.text
		}
	}
	if text != held {
		c.resources = text
	}
	c.drained = x.past.engine.Drained(now, x.service)
	c.drained = slices.DeleteFunc(c.drained, func(e string) bool { return x.svc().Edge(e) == nil })
	for _, e := range c.drained {
		if !slices.Contains(x.drained, e) {
			c.drain = append(c.drain, e)
		}
	}
	for _, e := range x.drained {
		if !slices.Contains(c.drained, e) && x.svc().Edge(e) != nil {
			c.undrain = append(c.undrain, e)
		}
	}
	return c, nil
}

// yaml writes the service as it holds, with the probe points that its rules really have.
func (x *export) yaml(svc *spec.Service) (string, error) {
	clone := *svc
	clone.Rules = slices.Clone(svc.Rules)
	for _, cfg := range x.configs {
		for _, p := range cfg.Points {
			x.points[p] = true
		}
		for i := range clone.Rules {
			r := &clone.Rules[i]
			if r.Name != cfg.Name || !r.Probe.Enabled {
				continue
			}
			r.Probe.Points = spec.Points{Names: slices.Clone(cfg.Points)}
			if len(cfg.Points) == 0 {
				r.Probe.Points.Names = []string{"nobody"} // a name that no point has
			}
		}
	}
	doc := spec.Resource{Kind: spec.KindService, Name: clone.Name, Service: &clone}
	b, err := doc.YAML(spec.Minimal)
	return string(b), err
}

// section keeps a text once and gives its name.
func (x *export) section(kind, ext, text string) string {
	n := 1
	for _, s := range x.sections {
		if s.text == text {
			return s.name
		}
		if strings.HasPrefix(s.name, kind) {
			n++
		}
	}
	s := exportSection{fmt.Sprintf("%s-%d.%s", kind, n, ext), text}
	x.sections = append(x.sections, s)
	return s.name
}

// decided takes a decision that is on the tape. Of several at one instant the last one is expected.
func (x *export) decided(d *tape.Decision) {
	if service, _, _ := strings.Cut(d.Rule, "/"); service != x.service || d.At < x.begin {
		return
	}
	if old := x.open[d.Rule]; old != nil && old.At != d.At {
		x.expect(old)
	}
	if d.From != "" {
		x.switches[d.Rule]++
	}
	x.open[d.Rule], x.answers[d.Rule] = d, d.To
}

func (x *export) expect(d *tape.Decision) {
	fmt.Fprintf(&x.lines, "expect %s %s %s cause=%s since=%s\n", seconds(d.At), d.Rule, d.To, d.Cause, seconds(d.At))
}

// settle writes the decisions that are not written yet.
func (x *export) settle() {
	for _, rule := range slices.Sorted(maps.Keys(x.open)) {
		x.expect(x.open[rule])
	}
	clear(x.open)
}

// text is the whole timeline.
func (x *export) text(version string, now time.Time) []byte {
	x.settle()
	var b bytes.Buffer
	end := x.epoch.Add(x.end)
	fmt.Fprintf(&b, "# Service %s as it was recorded from %s to %s.\n", x.service, stamp(x.epoch.Add(x.begin)), stamp(end))
	fmt.Fprintf(&b, "# Exported at %s by steer %s. Times are those of the decision core's clock: %s is %s.\n",
		stamp(now), version, seconds(x.begin), stamp(x.epoch.Add(x.begin)))
	for _, t := range x.past.trouble {
		fmt.Fprintf(&b, "# Not whole: %s\n", strings.ReplaceAll(t, "\n", " "))
	}
	points := slices.Sorted(maps.Keys(x.points))
	if len(points) == 0 {
		points = []string{"nobody"}
	}
	fmt.Fprintf(&b, "points %s\nepoch %s\nbegin %s\n", strings.Join(points, " "), x.epoch.UTC().Format(time.RFC3339Nano), seconds(x.begin))
	b.Write(x.lines.Bytes())
	if !x.halted {
		for _, rule := range slices.Sorted(maps.Keys(x.answers)) {
			if x.answers[rule] != "" {
				fmt.Fprintf(&b, "expect %s %s %s\n", seconds(x.end), rule, x.answers[rule])
			}
		}
	}
	for rule := range x.answers {
		x.switches[rule] += 0 // also those that never switched
	}
	for _, rule := range slices.Sorted(maps.Keys(x.switches)) {
		fmt.Fprintf(&b, "expect-switches %s %d\n", rule, x.switches[rule])
	}
	for _, s := range x.sections {
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text)
	}
	return b.Bytes()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// seconds writes an instant as timelines do.
func seconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second), "0") + "s"
}

// answerName is a decision as a timeline names it: the edge, or a weighted rule's set.
func answerName(d *steering.Decision) string {
	if len(d.Set) > 0 {
		return strings.Join(d.Set, ",")
	}
	return d.Edge
}
