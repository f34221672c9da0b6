package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	resourcePrefix = Root + "resources/"
	generationKey  = Root + "meta/generation"
	auditPrefix    = Root + "audit/"
)

// Resource is one stored resource.
type Resource struct {
	Kind, Name string
	Revision   int64 // etcd revision of the last write; 0: not stored
	Meta       Meta
	Document   json.RawMessage
}

// Meta is what we note beside the document.
type Meta struct {
	Modified time.Time `json:"modified"`
	Actor    string    `json:"actor,omitempty"`
	ApplySet string    `json:"applySet,omitempty"`
	// Boot and BootTime are the writing machine's boot and its boot clock, so that a relative end survives a wrong wall
	// clock.
	Boot     string        `json:"boot,omitempty"`
	BootTime time.Duration `json:"bootTime,omitempty"`
}

// envelope is the stored form.
type envelope struct {
	Meta     Meta            `json:"meta"`
	Document json.RawMessage `json:"document"`
}

// View is all resources at one revision.
type View struct {
	Revision   int64 // of the store
	Generation int64 // of the last write to any resource: the base of compare-and-set over all of them
	Resources  []Resource
}

// Write is one change of a resource. A nil Document deletes. Revision is what must be stored now (0: nothing).
type Write struct {
	Kind, Name string
	Revision   int64
	Meta       Meta
	Document   json.RawMessage
}

// Audit is one line of the audit trail.
type Audit struct {
	Time   time.Time       `json:"time"`
	Actor  string          `json:"actor"`
	Action string          `json:"action"` // create, update, delete
	Kind   string          `json:"kind"`
	Name   string          `json:"name"`
	Reason string          `json:"reason,omitempty"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

func resourceKey(kind, name string) string { return resourcePrefix + kind + "/" + name }

// Resources reads every resource at one revision.
func (s *Store) Resources(ctx context.Context) (View, error) {
	type pair struct{ all, generation *clientv3.GetResponse }
	p, err := run(ctx, s, "read resources", func(ctx context.Context) (pair, error) {
		all, err := s.client.Get(ctx, resourcePrefix, clientv3.WithPrefix())
		if err != nil {
			return pair{}, err
		}
		g, err := s.client.Get(ctx, generationKey, clientv3.WithRev(all.Header.Revision))
		return pair{all, g}, err
	})
	if err != nil {
		return View{}, err
	}
	v := View{Revision: p.all.Header.Revision}
	if len(p.generation.Kvs) > 0 {
		v.Generation = p.generation.Kvs[0].ModRevision
	}
	for _, kv := range p.all.Kvs {
		r, err := decodeResource(kv)
		if err != nil {
			return View{}, err
		}
		v.Resources = append(v.Resources, r)
	}
	return v, nil
}

func decodeResource(kv *mvccpb.KeyValue) (Resource, error) {
	kind, name, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), resourcePrefix), "/")
	if !ok {
		return Resource{}, fmt.Errorf("stored resource key %q: no kind", kv.Key)
	}
	r := Resource{Kind: kind, Name: name, Revision: kv.ModRevision}
	if len(kv.Value) == 0 {
		return r, nil
	}
	var e envelope
	if err := json.Unmarshal(kv.Value, &e); err != nil {
		return Resource{}, fmt.Errorf("stored resource %s/%s: %w", kind, name, err)
	}
	r.Meta, r.Document = e.Meta, e.Document
	return r, nil
}

// WriteResources does all writes and notes all audit lines, or nothing: generation must be that of the View the writes were
// validated against, and each Revision the stored one, else ErrConflict. It returns the revision of the write.
func (s *Store) WriteResources(ctx context.Context, generation int64, writes []Write, audit []Audit) (int64, error) {
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(generationKey), "=", generation)}
	ops := []clientv3.Op{clientv3.OpPut(generationKey, "")}
	for _, w := range writes {
		key := resourceKey(w.Kind, w.Name)
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", w.Revision))
		if w.Document == nil {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		b, err := json.Marshal(envelope{w.Meta, w.Document})
		if err != nil {
			return 0, fmt.Errorf("resource %s/%s: %w", w.Kind, w.Name, err)
		}
		ops = append(ops, clientv3.OpPut(key, string(b)))
	}
	for _, a := range audit {
		b, err := json.Marshal(a)
		if err != nil {
			return 0, fmt.Errorf("audit line of %s/%s: %w", a.Kind, a.Name, err)
		}
		ops = append(ops, clientv3.OpPut(auditPrefix+s.NextID(a.Time), string(b)))
	}
	return s.commit(ctx, "write resources", cmps, ops)
}

// commit runs one transaction; a failed comparison is ErrConflict.
func (s *Store) commit(ctx context.Context, what string, cmps []clientv3.Cmp, ops []clientv3.Op) (int64, error) {
	res, err := run(ctx, s, what, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(cmps...).Then(ops...).Commit()
	})
	if err != nil {
		return 0, err
	}
	if !res.Succeeded {
		return 0, fmt.Errorf("%s: %w", what, ErrConflict)
	}
	return res.Header.Revision, nil
}

// WatchResources sends, in order, what was written to resources after a revision, one slice for each write; a deletion
// has a nil Document. The channel is closed when ctx ends or the watch is lost (store failed, revision compacted):
// then read Resources again.
func (s *Store) WatchResources(ctx context.Context, after int64) <-chan []Resource {
	out := make(chan []Resource)
	go func() {
		defer close(out)
		w := s.client.Watch(ctx, resourcePrefix, clientv3.WithPrefix(), clientv3.WithRev(after+1))
		for {
			select {
			case res, ok := <-w:
				if !ok || res.Err() != nil || !s.forward(ctx, res.Events, out) {
					return
				}
			case <-s.failed:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// forward sends events grouped by revision: one write is one slice, and never a part of it.
func (s *Store) forward(ctx context.Context, events []*clientv3.Event, out chan<- []Resource) bool {
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		var batch []Resource
		for len(events) > 0 && events[0].Kv.ModRevision == rev {
			r, err := decodeResource(events[0].Kv)
			if err != nil {
				s.log.Error("stored resource is unreadable and left out", "error", err)
			} else {
				batch = append(batch, r)
			}
			events = events[1:]
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
