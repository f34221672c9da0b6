package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/report"
	"steerpoint/spec"
	"steerpoint/steering"
)

// SeriesRecorder keeps what is measured and answered. Its methods are called by the loop, and must not wait.
type SeriesRecorder interface {
	Measured(report.Measurement)
	Answered(report.Answer)
}

// SeriesReader gives what was kept. Errors of Query are about the disk.
type SeriesReader interface {
	Query(context.Context, report.SeriesQuery) ([]report.Series, error)
	// Day gives the last 24 hours of an edge, or of the rule as steered for edge "".
	Day(service, rule, edge string) (report.Figures, bool)
}

// Bounds of a query: cells are ten seconds wide, and a graph has no more than a thousand points.
const (
	seriesCell   = 10 * time.Second
	seriesPoints = 1000
	seriesMost   = 90 * 24 * time.Hour
)

// seriesSteps are what a step is chosen from when none is asked for.
var seriesSteps = []time.Duration{
	seriesCell, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
	30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// seriesValues bounds the points of all series of one answer: each is held in memory with its histogram.
const seriesValues = 200_000

// seriesReaders is how many queries read at a time: one of 90 days may read a million samples.
const seriesReaders = 2

// measured records an observation for each rule that has a use for it. A point that could not probe measured nothing.
func (c *Control) measured(at steering.Instant, o *report.Observation) {
	if c.deps.Record == nil || !o.Counts() {
		return
	}
	m := report.Measurement{At: c.clock.Wall(at), OK: o.OK, Latency: o.Latency}
	for u := range c.engine.Uses(o.Point, o.Task) {
		m.Service, m.Rule, m.Edge, m.Address = u.Service, u.Rule, u.Edge, u.Address
		c.deps.Record.Measured(m)
	}
}

// answered records what a rule answers from now on; an outcome without a state changes nothing of that.
func (c *Control) answered(now moment.Moment, o *engineOutcome) {
	if c.deps.Record == nil || (o.State == nil && !o.Ended) {
		return
	}
	a := report.Answer{At: c.clock.Wall(now.At), Service: o.Service, Rule: o.Name}
	if !o.Ended {
		if s := c.service(o.Service); s != nil {
			a.Targets = answerTargets(s, s.Rule(o.Name), &o.Decision, o.Edges)
		}
		a.Empty = o.Decision.AllDown == steering.AllDownEmpty
	}
	c.deps.Record.Answered(a)
}

// answeredAnew records what the rules of changed services answer now. A weight, or an address that is not probed yet, is no
// outcome of the engine, but other visitors. before: the services until now; those that are the same are left out.
func (c *Control) answeredAnew(now moment.Moment, before []*spec.Service) {
	if c.deps.Record == nil {
		return
	}
	same := make(map[*spec.Service]bool, len(before))
	for _, s := range before {
		same[s] = true
	}
	at := c.clock.Wall(now.At)
	for _, s := range c.engine.Services() {
		if same[s] {
			continue
		}
		for i := range s.Rules {
			if v, ok := c.engine.View(now.At, s.Name+"/"+s.Rules[i].Name); ok {
				c.deps.Record.Answered(report.Answer{
					At: at, Service: s.Name, Rule: s.Rules[i].Name, Targets: answerTargets(s, v.Rule, &v.Decision, v.Edges),
					Empty: v.Decision.AllDown == steering.AllDownEmpty,
				})
			}
		}
	}
}

func (c *Control) service(name string) *spec.Service {
	i := slices.IndexFunc(c.engine.Services(), func(s *spec.Service) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return c.engine.Services()[i]
}

// answerTargets are the addresses that a decision sends visitors to, as the map has them: those of the edge or edges
// answered, less those that are down, unless all are. An edge's part is divided among its addresses. A fallback has no
// targets: nothing probes it. A rule that answers with nothing has those that it would answer with otherwise. The weights
// sum to 1.
func answerTargets(s *spec.Service, rule *spec.Rule, d *steering.Decision, edges []steering.EdgeStatus) []report.AnswerTarget {
	names, weighted := answeredEdges(d), len(d.Set) > 0
	var out []report.AnswerTarget
	sum := 0.0
	for i := range edges {
		e := &edges[i]
		configured := s.Edge(e.Edge)
		if configured == nil || !slices.Contains(names, e.Edge) {
			continue
		}
		weight := 1.0
		if weighted {
			weight = float64(cmp.Or(configured.Weight, 50))
		}
		var well, every []string
		for _, a := range e.Addresses {
			every = append(every, a.Address)
			if rule == nil || rule.Mode == spec.Fixed || a.Verdict != steering.Down {
				well = append(well, a.Address)
			}
		}
		if len(well) == 0 {
			well = every
		}
		for _, address := range well {
			out = append(out, report.AnswerTarget{Edge: e.Edge, Address: address, Weight: weight / float64(len(well))})
		}
		if len(well) > 0 {
			sum += weight
		}
	}
	for i := range out {
		out[i].Weight /= sum
	}
	return out
}

func answeredEdges(d *steering.Decision) []string {
	switch {
	case strings.HasPrefix(d.Edge, "fallback:"):
		return nil
	case d.AllDown == steering.AllDownAll, d.AllDown == steering.AllDownEmpty:
		return d.List
	case d.AllDown == steering.AllDownFirst && len(d.List) > 0:
		return d.List[:1]
	case len(d.Set) > 0:
		return d.Set
	}
	return []string{d.Edge}
}

// SeriesTrouble raises the alarm that series are not written, or takes it away: err is nil.
func (c *Control) SeriesTrouble(err error) {
	message := ""
	if err != nil {
		message = fmt.Sprintf("series are not kept: %v. Switching and answers go on; make room, or put the folder series right: it goes on by itself", err)
	}
	c.alarms.set(api.AlarmSeries, "", err != nil, message)
}

// SeriesLost raises the alarm that a part of the series is gone. It stands until a restart: somebody must look.
func (c *Control) SeriesLost(path, message string) {
	c.alarms.set(api.AlarmSeriesLost, path, true, message)
}

// seriesStatus puts the figures of the last 24 hours to rules and edges.
func (c *Control) seriesStatus(s *api.Status) {
	if c.deps.Series == nil {
		return
	}
	for i := range s.Services {
		sv := &s.Services[i]
		for j := range sv.Rules {
			r := &sv.Rules[j]
			r.Availability24h, r.Latency24hMs = c.day(sv.Name, r.Rule, "")
			for k := range r.Edges {
				e := &r.Edges[k]
				e.Availability24h, e.Latency24hMs = c.day(sv.Name, r.Rule, e.Edge)
			}
		}
	}
}

func (c *Control) day(service, rule, edge string) (availability, latency *float64) {
	f, ok := c.deps.Series.Day(service, rule, edge)
	if !ok {
		return nil, nil
	}
	return figureOf(&f)
}

// figureOf gives availability and mean latency in milliseconds; nil for what nothing tells of.
func figureOf(f *report.Figures) (availability, latency *float64) {
	if f.Probes > 0 {
		v := min(f.OK/f.Probes, 1)
		availability = &v
	}
	if f.OK > 0 {
		v := ms(f.Mean)
		latency = &v
	}
	return availability, latency
}

type seriesInput struct {
	Service string `query:"service" required:"true" minLength:"1" maxLength:"63" doc:"name of the service" example:"shop"`
	Rule    string `query:"rule" maxLength:"63" doc:"only this rule"`
	Edge    string `query:"edge" maxLength:"63" doc:"only this edge"`
	Metric  string `query:"metric" enum:"availability,latency,steered" doc:"what is wanted: of edges the availability alone, or latencies too; or the rules as steered. Default: all of it"`
	From    string `query:"from" maxLength:"50" doc:"RFC 3339 time, or a Go duration back from now; default 24h"`
	To      string `query:"to" maxLength:"50" doc:"RFC 3339 time; default now"`
	Step    string `query:"step" maxLength:"20" doc:"Go duration, rounded up to a multiple of 10s; default: the shortest usual one with at most 1,000 points"`
}

func (c *Control) seriesRoute(a huma.API) {
	register(a, operation(http.MethodGet, "/series", "series", "Availability and latency over time: of edges, and of rules as they steered", 0), c.seriesOf)
}

func (c *Control) seriesOf(ctx context.Context, in *seriesInput) (*body[api.SeriesAnswer], error) {
	if c.deps.Series == nil {
		return nil, seriesProblem(errors.New("this process keeps none"))
	}
	q, err := c.seriesQuery(in)
	if err != nil {
		return nil, err
	}
	n, err := c.countSeries(ctx, &q)
	if err != nil {
		return nil, err
	}
	if q.Step, err = seriesStep(in.Step, q.To.Sub(q.From), n); err != nil {
		return nil, err
	}
	if err := c.reading.enter(ctx); err != nil {
		return nil, err
	}
	defer c.reading.leave()
	list, err := c.deps.Series.Query(ctx, q)
	if err != nil {
		return nil, seriesProblem(err)
	}
	if len(list) == 0 {
		if err := c.knowsSeries(ctx, in); err != nil {
			return nil, err
		}
	}
	out := api.SeriesAnswer{
		Service: q.Service, Metric: in.Metric, From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Series: make([]api.Series, len(list)),
	}
	for i := range list {
		out.Series[i] = seriesView(&list[i])
	}
	return &body[api.SeriesAnswer]{out}, nil
}

func seriesProblem(err error) *api.Problem {
	return problem(http.StatusServiceUnavailable, api.CodeNoSeries, "Series are not available",
		err.Error()+". Answers and switching go on; `steer status` says what to do")
}

// knowsSeries tells a name that was mistyped from one of which nothing was observed yet. What is deleted has series still.
func (c *Control) knowsSeries(ctx context.Context, in *seriesInput) error {
	var err error
	if doErr := c.do(ctx, func() {
		s := c.service(in.Service)
		switch {
		case s == nil:
			err = notFound("no service is named %s, nor was one measured in that time", in.Service)
		case in.Rule != "" && s.Rule(in.Rule) == nil:
			err = notFound("service %s has no rule %s, nor had one in that time", in.Service, in.Rule)
		case in.Edge != "" && s.Edge(in.Edge) == nil:
			err = notFound("service %s has no edge %s, nor had one in that time", in.Service, in.Edge)
		}
	}); doErr != nil {
		return doErr
	}
	return err
}

// countSeries is how many series a query asks for, of what is configured now; of what is gone nobody knows before reading.
func (c *Control) countSeries(ctx context.Context, q *report.SeriesQuery) (n int, err error) {
	err = c.do(ctx, func() {
		s := c.service(q.Service)
		if s == nil {
			return
		}
		for i := range s.Rules {
			r := &s.Rules[i]
			if q.Rule != "" && q.Rule != r.Name {
				continue
			}
			if q.Steered {
				n++
			}
			switch {
			case q.Edges && q.Edge != "":
				n++
			case q.Edges:
				n += ruleEdges(r)
			}
		}
	})
	return n, err
}

// ruleEdges is how many edges take part in a rule at any time.
func ruleEdges(r *spec.Rule) int {
	names := slices.Clone(r.Edges)
	for i := range r.Schedule {
		names = append(names, r.Schedule[i].Edges...)
	}
	slices.Sort(names)
	return len(slices.Compact(names))
}

// seriesQuery reads what is asked for, but for the step.
func (c *Control) seriesQuery(in *seriesInput) (report.SeriesQuery, error) {
	now := c.wallNow().UTC()
	q := report.SeriesQuery{
		Service: in.Service, Rule: in.Rule, Edge: in.Edge, Latency: in.Metric != "availability",
		Edges: in.Metric != "steered", Steered: (in.Metric == "" || in.Metric == "steered") && in.Edge == "",
	}
	if in.Metric == "steered" && in.Edge != "" {
		return q, badRequest("query.edge", "a rule as steered is no series of an edge: leave edge out")
	}
	var err error
	if q.To, err = c.parsePast("query.to", in.To, now); err != nil {
		return q, err
	}
	if in.From == "" {
		q.From = q.To.Add(-24 * time.Hour)
	} else if q.From, err = parseBack(now, in.From); err != nil {
		return q, err
	}
	q.From, q.To = q.From.UTC().Truncate(seriesCell), q.To.UTC().Truncate(seriesCell)
	window := q.To.Sub(q.From)
	switch {
	case window < seriesCell:
		return q, badRequest("query.from", "from must lie before to, by 10s at least")
	case window > seriesMost+time.Hour: // who asks for 90 days means what there is
		return q, badRequest("query.from", "more than 90 days are not kept")
	}
	return q, nil
}

func parseBack(now time.Time, s string) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, badRequest("query.from", "%q is neither an RFC 3339 time nor a duration such as 24h", s)
	}
	return t, nil
}

// seriesStep reads a step, or chooses one, for so many series. A window that does not begin at a multiple of the step
// touches one more.
func seriesStep(s string, window time.Duration, series int) (time.Duration, error) {
	points := func(step time.Duration) time.Duration { return (window+step-1)/step + 1 }
	most := min(seriesPoints, time.Duration(seriesValues/max(series, 1)))
	if s == "" {
		for _, step := range seriesSteps {
			if points(step) <= most {
				return step, nil
			}
		}
		return 0, tooManyValues(series, points(seriesSteps[len(seriesSteps)-1]))
	}
	step, err := time.ParseDuration(s)
	if err != nil || step <= 0 || step > seriesMost {
		return 0, badRequest("query.step", "%q is not a duration such as 1m", s)
	}
	step = (step + seriesCell - 1) / seriesCell * seriesCell
	if points(step) > seriesPoints {
		return 0, badRequest("query.step", "a step of %v over %v is more than %d points: take a longer step, or leave it out", step, window, seriesPoints)
	}
	if points(step) > most {
		return 0, tooManyValues(series, points(step))
	}
	return step, nil
}

func tooManyValues(series int, points time.Duration) error {
	return badRequest("query.step", "%d series of up to %d points are more than %d points in one answer: take a longer step or a shorter time, or name a rule or an edge", series, points, seriesValues)
}

func seriesView(s *report.Series) api.Series {
	out := api.Series{Rule: s.Rule, Edge: s.Edge, Steered: s.Edge == "", SeriesFigures: seriesFigures(&s.Total), Points: make([]api.SeriesPoint, len(s.Points))}
	for i := range s.Points {
		out.Points[i] = api.SeriesPoint{Time: s.Points[i].Start, SeriesFigures: seriesFigures(&s.Points[i].Figures)}
	}
	return out
}

func seriesFigures(f *report.Figures) api.SeriesFigures {
	out := api.SeriesFigures{Probes: f.Probes, OK: f.OK}
	out.Availability, out.LatencyMs = figureOf(f)
	if f.P95 > 0 {
		v := ms(f.P95)
		out.P95Ms = &v
	}
	if f.Mean == 0 {
		out.LatencyMs = nil
	}
	return out
}
