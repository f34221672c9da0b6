// Package shelf keeps closed cells on disk, in a Prometheus TSDB: the samples of a key are one number each of probes and
// of those ok, and one native histogram of latency, all at the end of their cell.
package shelf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"

	"steerpoint/analytics/internal/cells"
)

// Names of the metrics and their labels. They are what PromQL and remote readers see, so they stay.
const (
	EdgeProbes   = "steer_analytics_edge_probes"
	EdgeOK       = "steer_analytics_edge_probes_ok"
	EdgeLatency  = "steer_analytics_edge_latency_seconds"
	RuleProbes   = "steer_analytics_rule_probes"
	RuleOK       = "steer_analytics_rule_probes_ok"
	RuleLatency  = "steer_analytics_rule_latency_seconds"
	LabelService = "service"
	LabelRule    = "rule"
	LabelEdge    = "edge"
	metricName   = "__name__"
)

// backward is how far behind the newest sample another may be: a clock that was set back by less loses nothing.
const backward = 2 * time.Hour

// Config says how a shelf is kept.
type Config struct {
	Dir       string        // made if absent
	Retention time.Duration // how long samples are kept
	MaxBytes  int64         // the most that blocks, log and head chunks may take
	// Block is the length of the shortest blocks; 0: 2 h. The log has at most one and a half of them.
	Block time.Duration
	Log   *slog.Logger
}

// Shelf is an open TSDB. Its methods may run at the same time, but for Append, which is for one goroutine.
type Shelf struct {
	cfg Config
	db  *tsdb.DB
	// flip is held to make what is appended visible at one instant: see Snapshot.
	flip sync.RWMutex
}

// open opens the TSDB as it is.
func open(cfg Config) (*Shelf, error) {
	if cfg.Block == 0 {
		cfg.Block = 2 * time.Hour
	}
	o := tsdb.DefaultOptions()
	o.RetentionDuration = cfg.Retention.Milliseconds()
	o.MaxBytes = cfg.MaxBytes
	o.MinBlockDuration = cfg.Block.Milliseconds()
	o.MaxBlockDuration = max(o.MinBlockDuration, o.RetentionDuration/10) // as Prometheus does: retention drops whole blocks
	o.OutOfOrderTimeWindow = backward.Milliseconds()
	o.NoLockfile = true        // the data folder has a lock of its own
	o.WALSegmentSize = 8 << 20 // an hour and more of 1,000 edges
	o.WALCompression = compression.Snappy
	o.StripeSize = 1 << 10 // of the map of series; the usual 16,384 take 8 MB empty
	o.HeadChunksWriteBufferSize = 256 << 10
	o.EnableMemorySnapshotOnShutdown = false
	db, err := tsdb.Open(cfg.Dir, cfg.Log, nil, o, nil)
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	return &Shelf{cfg: cfg, db: db}, nil
}

// Close ends the background work and closes the files.
func (s *Shelf) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("series: %w", err)
	}
	return nil
}

// Newest is the start of the newest cell on the shelf, in Unix milliseconds; ok is false when there is none.
func (s *Shelf) Newest() (start int64, ok bool) {
	newest := int64(-1)
	for _, b := range s.db.BlockMetas() {
		newest = max(newest, b.MaxTime-1)
	}
	if head := s.db.Head(); head.NumSeries() > 0 && head.MaxTime() > newest {
		newest = head.MaxTime()
	}
	return newest - cells.Width.Milliseconds(), newest >= 0
}

// Size is how many bytes the shelf takes.
func (s *Shelf) Size() int64 {
	size := s.db.Head().Size()
	for _, b := range s.db.Blocks() {
		size += b.Size()
	}
	return size
}

// Append writes cells, all or none, and calls done before anybody can see them: who reads by Snapshot sees them here or
// there, never in both places. refused counts samples that the TSDB does not take: older than two hours before the newest.
func (s *Shelf) Append(ctx context.Context, list []cells.Cell, done func()) (refused int, err error) {
	app := s.db.AppenderV2(ctx)
	for i := range list {
		n, err := appendCell(app, &list[i])
		if err != nil {
			return 0, errors.Join(fmt.Errorf("series: %w", err), app.Rollback())
		}
		refused += n
	}
	s.flip.Lock()
	defer s.flip.Unlock()
	if err := app.Commit(); err != nil {
		return 0, fmt.Errorf("series: %w", err)
	}
	done()
	return refused, nil
}

func appendCell(app storage.AppenderV2, c *cells.Cell) (refused int, err error) {
	probes, ok, latency := EdgeProbes, EdgeOK, EdgeLatency
	if c.Edge == "" {
		probes, ok, latency = RuleProbes, RuleOK, RuleLatency
	}
	put := func(name string, v float64, h *histogram.FloatHistogram) error {
		_, err := app.Append(0, labelsOf(name, c.Key), 0, c.End(), v, nil, h, storage.AOptions{})
		switch {
		case errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrOutOfBounds), errors.Is(err, storage.ErrTooOldSample),
			errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
			refused++
			return nil
		}
		return err
	}
	if err := put(probes, c.Probes, nil); err != nil {
		return 0, err
	}
	if err := put(ok, c.OK, nil); err != nil {
		return 0, err
	}
	if c.OK == 0 {
		return refused, nil
	}
	return refused, put(latency, 0, native(&c.Tally))
}

func labelsOf(name string, k cells.Key) labels.Labels {
	if k.Edge == "" {
		return labels.FromStrings(metricName, name, LabelRule, k.Rule, LabelService, k.Service)
	}
	return labels.FromStrings(metricName, name, LabelEdge, k.Edge, LabelRule, k.Rule, LabelService, k.Service)
}

// native is the latency of a tally as a native histogram. It is a gauge: each sample is of its own cell alone.
func native(t *cells.Tally) *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{
		CounterResetHint: histogram.GaugeType, Schema: cells.Schema, Count: t.OK, Sum: t.Seconds,
		PositiveBuckets: make([]float64, 0, len(t.Latency)),
	}
	var next int32 // index after the last bucket
	for i, b := range t.Latency {
		if n := len(h.PositiveSpans); i > 0 && b.Index == next {
			h.PositiveSpans[n-1].Length++
		} else {
			h.PositiveSpans = append(h.PositiveSpans, histogram.Span{Offset: b.Index - next, Length: 1})
		}
		h.PositiveBuckets = append(h.PositiveBuckets, b.N)
		next = b.Index + 1
	}
	return h
}

// Lost names what was set aside and why.
type Lost struct {
	What string // for people: what is missing now
	Path string // where it is now
	Err  error
	// Mended: it is the end of the log, torn or damaged, that was cut off.
	Mended bool
}

// Open opens a shelf, and sets aside what of it is damaged, or lies more than an hour after now: the clock was wrong
// then, and what comes now would be refused as too old. An error is not about damage: the disk is full, say, or there is
// no right to read.
func Open(ctx context.Context, cfg Config, now time.Time) (*Shelf, []Lost, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("series: %w", err)
	}
	r := &repair{cfg: cfg, now: now}
	return r.open(ctx)
}

// headParts are what holds the newest samples, which are in no block yet.
func headParts(dir string) []string {
	return []string{filepath.Join(dir, "wal"), filepath.Join(dir, "wbl"), filepath.Join(dir, "chunks_head")}
}
