package steertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"steerpoint/steering"
)

// The resources of the tests' timelines, as far as steering reads them. The real ones are package spec's, which may not be
// imported from here.
type (
	yamlService struct {
		Kind  string     `yaml:"kind"`
		Name  string     `yaml:"name"`
		Edges []yamlEdge `yaml:"edges"`
		Rules []yamlRule `yaml:"rules"`
	}
	yamlEdge struct {
		Name      string   `yaml:"name"`
		Target    string   `yaml:"target,omitempty"`
		Addresses []string `yaml:"addresses,omitempty,flow"`
		Enabled   *bool    `yaml:"enabled,omitempty"`
		Weight    int      `yaml:"weight,omitempty"`
	}
	yamlRule struct {
		Name        string        `yaml:"name"`
		Scope       any           `yaml:"scope"`
		Mode        string        `yaml:"mode"`
		Edges       []string      `yaml:"edges,flow"`
		WhenAllDown string        `yaml:"whenAllDown,omitempty"`
		Lock        time.Duration `yaml:"lock,omitempty"`
		Cooldown    time.Duration `yaml:"cooldown,omitempty"`
		Dwell       time.Duration `yaml:"dwell,omitempty"`
		SlowFactor  float64       `yaml:"slowFactor,omitempty"`
		Schedule    []yamlWindow  `yaml:"schedule,omitempty"`
		Probe       yamlProbe     `yaml:"probe,flow"`
	}
	yamlWindow struct {
		Days  []string `yaml:"days,flow"`
		From  string   `yaml:"from"`
		To    string   `yaml:"to"`
		TZ    string   `yaml:"tz"`
		Edges []string `yaml:"edges,flow"`
	}
	yamlProbe struct {
		Interval  time.Duration `yaml:"interval,omitempty"`
		Timeout   time.Duration `yaml:"timeout,omitempty"`
		Fall      int           `yaml:"fall,omitempty"`
		Rise      int           `yaml:"rise,omitempty"`
		MinPoints int           `yaml:"minPoints,omitempty"`
		Points    yamlPoints    `yaml:"points,omitempty"`
	}
	yamlPoints struct {
		Names []string `yaml:"names,flow"`
	}
)

// loadYAML is the Loader of the tests.
func loadYAML(_ string, data []byte, points []string) ([]steering.RuleConfig, error) {
	var out []steering.RuleConfig
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var s yamlService
		switch err := dec.Decode(&s); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("yaml: %w", err)
		}
		for _, r := range s.Rules {
			cfg, err := s.config(r, points)
			if err != nil {
				return nil, fmt.Errorf("rule %s/%s: %w", s.Name, r.Name, err)
			}
			out = append(out, cfg)
		}
	}
}

func (s yamlService) config(r yamlRule, points []string) (steering.RuleConfig, error) {
	modes := map[string]steering.Mode{
		"fixed": steering.ModeFixed, "failover": steering.ModeFailover, "quality": steering.ModeQuality, "weighted": steering.ModeWeighted,
	}
	mode, ok := modes[r.Mode]
	if !ok {
		return steering.RuleConfig{}, fmt.Errorf("mode %q", r.Mode)
	}
	cfg := steering.RuleConfig{
		Service: s.Name, Name: r.Name, Scope: fmt.Sprint(r.Scope), Mode: mode, Edges: r.Edges,
		Lock: orDefault(r.Lock, 60*time.Second), Cooldown: orDefault(r.Cooldown, 120*time.Second), Dwell: r.Dwell,
		SlowMilli: int64(math.Round(r.SlowFactor * 1000)),
		Interval:  orDefault(r.Probe.Interval, 30*time.Second), Timeout: orDefault(r.Probe.Timeout, 5*time.Second),
		Fall: orDefault(r.Probe.Fall, 3), Rise: orDefault(r.Probe.Rise, 2), MinPoints: r.Probe.MinPoints, Points: points,
	}
	if len(r.Probe.Points.Names) > 0 {
		cfg.Points = r.Probe.Points.Names
	}
	for _, e := range s.Edges {
		addresses := e.Addresses
		if e.Target != "" {
			addresses = []string{e.Target}
		}
		cfg.ServiceEdges = append(cfg.ServiceEdges, steering.EdgeConfig{
			Name: e.Name, Enabled: e.Enabled == nil || *e.Enabled, Weight: orDefault(e.Weight, 50), Addresses: addresses,
		})
	}
	switch policy, target, _ := strings.Cut(r.WhenAllDown, ":"); policy {
	case "", "hold":
	case "all":
		cfg.AllDown = steering.AllDownAll
	case "first":
		cfg.AllDown = steering.AllDownFirst
	case "empty":
		cfg.AllDown = steering.AllDownEmpty
	case "fallback":
		cfg.AllDown, cfg.Fallback = steering.AllDownFallback, target
	default:
		return cfg, fmt.Errorf("whenAllDown %q", r.WhenAllDown)
	}
	for _, w := range r.Schedule {
		window, err := w.window()
		if err != nil {
			return cfg, err
		}
		cfg.Schedule = append(cfg.Schedule, window)
	}
	return cfg, nil
}

func (w yamlWindow) window() (steering.Window, error) {
	out := steering.Window{Edges: w.Edges}
	for _, d := range w.Days {
		i := strings.Index("sunmontuewedthufrisat", d)
		if i < 0 || len(d) != 3 {
			return out, fmt.Errorf("day %q", d)
		}
		out.Days[i/3] = true
	}
	zone, err := time.LoadLocation(w.TZ)
	if err != nil {
		return out, fmt.Errorf("zone %q: %w", w.TZ, err)
	}
	out.Zone = zone
	for _, x := range []struct {
		text string
		into *time.Duration
	}{{w.From, &out.From}, {w.To, &out.To}} {
		var h, m int
		if _, err := fmt.Sscanf(x.text, "%d:%d", &h, &m); err != nil {
			return out, fmt.Errorf("clock %q: %w", x.text, err)
		}
		*x.into = time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
	}
	return out, nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
