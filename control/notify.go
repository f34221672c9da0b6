package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/control/internal/notify"
	"steerpoint/spec"
	"steerpoint/steering"
)

const (
	// newsBatch is how many events become one write to an outbox.
	newsBatch = 256
	// settleAfter is how long a process runs before an alarm that is not on again counts as over: points have spoken by
	// then, and nodes have come back.
	settleAfter = 2 * time.Minute
	// recoverWithin is how far back the switch log is read for switches that were not told: older ones are no news.
	recoverWithin = 24 * time.Hour
	maxRecovered  = 1000
)

// news tells notifiers what happens. It reads the feed like any watcher: nothing waits for it.
type news struct {
	hub     *notify.Hub
	wake    chan struct{}
	secrets *secrets

	mu      sync.Mutex // of pending
	pending func()
	apply   sync.Mutex // one at a time, so that the newest targets stay
}

// openNews makes the hub; it serves nobody yet.
func (c *Control) openNews() error {
	c.news.wake, c.news.secrets = make(chan struct{}, 1), &c.secrets
	var err error
	c.news.hub, err = notify.New(notify.Config{
		Folder: filepath.Join(c.cfg.Data, "notify"), From: notify.From{Cluster: c.cfg.Cluster, Node: c.cfg.Node},
		Floor:   func() string { return switchNews(fmt.Sprintf("%016x", max(c.wallNow().UnixNano(), 0))) },
		Failing: func(name string, on bool, message string) { c.alarms.set(api.AlarmNotify, name, on, message) },
		Log:     c.log, AllowLocal: c.cfg.NotifyLocal, Timing: c.deps.notifyTiming, Secret: c.secrets.open,
		Never: []string{c.cfg.SealKey},
	})
	return err
}

// switchNews is the ID of the news of a switch, from its ID in the log.
func switchNews(id string) string { return "switch-" + id }

// configure puts the notifiers of a set in place as soon as somebody has time for it: outboxes are files.
func (n *news) configure(set *spec.Set) {
	targets := make([]notify.Target, 0, len(set.Notifiers()))
	for _, s := range set.Notifiers() {
		targets = append(targets, notify.Target{
			Name: s.Name, Type: s.Type, URL: s.URL, URLFile: s.URLFile, SecretFile: s.SecretFile, AuthorizationFile: s.AuthorizationFile,
			On: s.On, Services: s.Services, Headers: s.Headers, Language: s.Language,
			URLFrom: keyRef(s.URLFrom), SecretFrom: keyRef(s.SecretFrom), AuthorizationFrom: keyRef(s.AuthorizationFrom),
			Version: n.secrets.version(set, s),
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending = func() { n.hub.Configure(targets) }
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// keyRef names a value of a Secret; zero: none.
func keyRef(r *spec.SecretRef) notify.KeyRef {
	if r == nil {
		return notify.KeyRef{}
	}
	return notify.KeyRef{Secret: r.Secret, Key: r.Key}
}

// inPlace does what configure asked for last.
func (n *news) inPlace() {
	n.apply.Lock()
	defer n.apply.Unlock()
	n.mu.Lock()
	f := n.pending
	n.pending = nil
	n.mu.Unlock()
	if f != nil {
		f()
	}
}

// tellNews carries events from the feed to the notifiers until ctx ends.
func (c *Control) tellNews(ctx context.Context) error {
	ran := make(chan error, 1)
	go func() { ran <- c.news.hub.Run(ctx) }()
	c.news.inPlace()
	c.recoverSwitches(ctx)
	settle := time.NewTimer(settleAfter)
	defer settle.Stop()
	last := uint64(0)
	for ctx.Err() == nil {
		events, lost, more := c.feed.After(last, newsBatch)
		c.news.inPlace()
		if len(events) > 0 {
			last = events[len(events)-1].ID
			c.news.hub.Take(c.newsOf(events))
		}
		if lost > 0 { // switches are in the log, so those are found again; of the rest some was for nobody
			c.log.Warn("events were lost before notifiers got them", "events", lost)
			c.news.hub.Lost(lost)
			c.recoverSwitches(ctx)
		}
		c.news.hub.Flush()
		if len(events) == newsBatch {
			continue
		}
		select {
		case <-ctx.Done():
		case <-more:
		case <-c.news.wake:
		case <-settle.C:
			c.news.hub.Settle(c.alarmsOn())
		}
	}
	return <-ran
}

// recoverSwitches tells switches of the log that no process came to tell: one that was killed, or that lost them.
func (c *Control) recoverSwitches(ctx context.Context) {
	if len(c.news.hub.Status()) == 0 {
		return
	}
	since := c.wallNow().Add(-recoverWithin).Format(time.RFC3339Nano)
	page, err := c.switchLog(ctx, &switchesInput{Since: since, PageInput: PageInput{Limit: maxRecovered}})
	if err != nil {
		c.log.Warn("switch log not read for notifiers; what was not told stays untold", "error", err)
		return
	}
	var out []notify.Event
	for _, s := range slices.Backward(page.Body.Switches) {
		e := notify.Event{
			ID: switchNews(s.ID), Time: s.Time, Kind: notify.KindSwitch, Service: s.Service, Rule: s.Rule, Scope: s.Scope,
			From: s.From, To: s.To, Cause: s.Cause, Message: s.Reason, DetectionSeconds: s.DetectionSeconds,
		}
		if s.Publication != nil {
			p := publicationNews(s.Publication)
			e.Publication = &p
		}
		out = append(out, e)
	}
	c.news.hub.Recover(out)
}

func publicationNews(p *api.Publication) notify.Publication {
	return notify.Publication{Seconds: p.Seconds, MapVersion: p.MapVersion, Acked: p.Acked, Missing: p.Missing, MissingCount: p.MissingCount}
}

// alarmsOn names the alarms that are on, by code and subject.
func (c *Control) alarmsOn() map[string]bool {
	on := map[string]bool{}
	for _, a := range c.alarms.list() {
		on[a.Code+" "+a.Subject] = true
	}
	return on
}

// newsOf gives what is news among events.
func (c *Control) newsOf(events []api.Event) []notify.Event {
	var out []notify.Event
	for i := range events {
		if e, ok := c.newsEvent(&events[i]); ok {
			out = append(out, e)
		}
	}
	return out
}

func (c *Control) newsEvent(e *api.Event) (notify.Event, bool) {
	n := notify.Event{
		ID: fmt.Sprintf("%s-%x-%d", e.Kind, c.started.UnixNano(), e.ID), Time: e.Time.UTC(), Kind: e.Kind, Service: e.Service, Rule: e.Rule,
		Scope: e.Scope, Edge: e.Edge, From: e.From, To: e.To, Cause: e.Cause, Code: e.Code, Subject: e.Subject, On: e.On, Message: e.Message,
	}
	switch e.Kind {
	case api.EventSwitch:
		n.ID, n.Kind, n.DetectionSeconds = switchNews(e.Switch), notify.KindSwitch, e.Seconds
	case api.EventVerdict:
		n.Kind = notify.KindVerdict
		began := e.From == steering.Unknown.String() && e.To == steering.Up.String() // the first results of a new edge
		return n, e.From != e.To && !began
	case api.EventAlarm:
		n.Kind = notify.KindAlarm
		switch e.Code {
		case api.AlarmMassSwitch:
			n.Kind = notify.KindMass
		case api.AlarmCertEnding:
			n.Kind = notify.KindExpiry
		case api.AlarmNotify:
			n.Not = e.Subject // its own failure it cannot tell
		case api.AlarmResource:
			n.Service, n.Rule = "", ""
			if kind, name, _ := strings.Cut(e.Subject, "/"); kind == string(spec.KindService) {
				n.Service = name
			}
		}
	case api.EventOverride:
		n.Kind = notify.KindExpiry
		return n, e.Actor == overrideEnds && strings.Contains(e.Message, " deleted by ")
	default:
		return n, false
	}
	return n, true
}

// notifierStatus is the state of every notifier.
func (c *Control) notifierStatus() []api.NotifierStatus {
	out := []api.NotifierStatus{}
	for _, s := range c.news.hub.Status() {
		v := api.NotifierStatus{
			Name: s.Name, Type: s.Type, Queue: s.Queue, LastError: s.LastError, Failures: s.Failures, Sent: s.Sent, Failed: s.Failed, Lost: s.Lost,
		}
		for _, t := range []struct {
			from time.Time
			to   **time.Time
		}{{s.LastSuccess, &v.LastSuccess}, {s.LastTry, &v.LastTry}, {s.NextTry, &v.NextTry}} {
			if !t.from.IsZero() {
				at := t.from.UTC().Truncate(time.Millisecond)
				*t.to = &at
			}
		}
		out = append(out, v)
	}
	return out
}

// testNotifier sends a test message and gives what came back.
func (c *Control) testNotifier(ctx context.Context, name string) (*api.NotifyTest, error) {
	c.news.inPlace()
	r, err := c.news.hub.Test(ctx, name)
	if errors.Is(err, notify.ErrUnknown) {
		return nil, notFound("no notifier is named %s", name)
	}
	if err != nil {
		return nil, err
	}
	return &api.NotifyTest{
		Name: name, OK: r.OK, ID: r.ID, Status: r.Status, Answer: r.Answer, Error: r.Error, Seconds: r.Duration.Seconds(),
	}, nil
}

// notifyCollector gives the state of every notifier at the time it is asked.
type notifyCollector struct {
	c                         *Control
	queue, sent, failed, lost *prometheus.Desc
}

func newNotifyCollector(c *Control) *notifyCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"notifier"}, nil)
	}
	return &notifyCollector{
		c:      c,
		queue:  desc("steer_control_notify_queue_events", "Events that wait to be told by a notifier."),
		sent:   desc("steer_control_notify_messages_total", "Messages a notifier delivered."),
		failed: desc("steer_control_notify_failures_total", "Tries of a notifier that failed."),
		lost:   desc("steer_control_notify_lost_events_total", "Events a notifier gave up."),
	}
}

// Describe implements prometheus.Collector.
func (n *notifyCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{n.queue, n.sent, n.failed, n.lost} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (n *notifyCollector) Collect(ch chan<- prometheus.Metric) {
	if n.c.news.hub == nil { // asked before everything is open
		return
	}
	for _, s := range n.c.news.hub.Status() {
		ch <- prometheus.MustNewConstMetric(n.queue, prometheus.GaugeValue, float64(s.Queue), s.Name)
		for d, v := range map[*prometheus.Desc]uint64{n.sent: s.Sent, n.failed: s.Failed, n.lost: s.Lost} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), s.Name)
		}
	}
}

type notifierInput struct {
	Name string `path:"name" maxLength:"63" doc:"name of the notifier" example:"pager"`
}
