package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	decisionPrefix = Root + "decisions/"
	switchPrefix   = Root + "switches/"
	publishPrefix  = Root + "switch-publication/"
	undonePrefix   = Root + "switch-undone/"
	versionKey     = Root + "meta/version"
	// batchRules and batchBytes bound one transaction: one vendor's failure moves thousands of rules, and a transaction
	// of all of them would hold the store up for seconds.
	batchRules = 500
	batchBytes = 4 << 20
)

// Commit is what one rule's change writes, in one transaction with others of its batch.
type Commit struct {
	Rule     string // service/rule
	Record   []byte // its decision record; nil: the rule ended, the record goes
	Switches []Entry
	Undone   []Entry // ID: of the switch that was undone
}

// Entry is one log record.
type Entry struct {
	ID    string
	Value []byte
}

// CommitDecisions writes commits in order, in transactions of at most 500 rules. It returns how many commits are
// safely written; after an error the others are not (the failed batch may be written though, if the error is a
// time-out: writing it again is harmless, since every key is named by what it holds).
func (s *Store) CommitDecisions(ctx context.Context, commits []Commit) (int, error) {
	done := 0
	for done < len(commits) {
		n := batchLen(commits[done:])
		var ops []clientv3.Op
		for _, c := range commits[done : done+n] {
			ops = c.appendOps(ops)
		}
		if _, err := s.commit(ctx, "commit decisions", nil, ops); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// batchLen says how many of the first commits fit one transaction: a rule occurs once, since a transaction may name a
// key once.
func batchLen(commits []Commit) int {
	seen, size := make(map[string]bool), 0
	for i, c := range commits {
		size += len(c.Record)
		for _, e := range c.Switches {
			size += len(e.Value)
		}
		if i > 0 && (i >= batchRules || size > batchBytes || seen[c.Rule]) {
			return i
		}
		seen[c.Rule] = true
	}
	return len(commits)
}

func (c Commit) appendOps(ops []clientv3.Op) []clientv3.Op {
	if c.Record == nil {
		ops = append(ops, clientv3.OpDelete(decisionPrefix+c.Rule))
	} else {
		ops = append(ops, clientv3.OpPut(decisionPrefix+c.Rule, string(c.Record)))
	}
	for _, e := range c.Switches {
		ops = append(ops, clientv3.OpPut(switchPrefix+e.ID, string(e.Value)))
	}
	for _, e := range c.Undone {
		ops = append(ops, clientv3.OpPut(undonePrefix+e.ID, string(e.Value)))
	}
	return ops
}

// Decisions reads every decision record by rule.
func (s *Store) Decisions(ctx context.Context) (map[string][]byte, error) {
	res, err := run(ctx, s, "read decisions", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, decisionPrefix, clientv3.WithPrefix())
	})
	if err != nil {
		return nil, err
	}
	m := make(map[string][]byte, len(res.Kvs))
	for _, kv := range res.Kvs {
		m[strings.TrimPrefix(string(kv.Key), decisionPrefix)] = kv.Value
	}
	return m, nil
}

// WritePublications notes when switches were published.
func (s *Store) WritePublications(ctx context.Context, entries []Entry) error {
	for len(entries) > 0 {
		n := min(len(entries), batchRules)
		ops := make([]clientv3.Op, n)
		for i, e := range entries[:n] {
			ops[i] = clientv3.OpPut(publishPrefix+e.ID, string(e.Value))
		}
		if _, err := s.commit(ctx, "write publications", nil, ops); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// SwitchRecord is one entry of the switch log with what became known later; each part is JSON or nil.
type SwitchRecord struct {
	ID                         string
	Entry, Publication, Undone json.RawMessage
}

// SwitchPage reads the switch log backwards: entries older than before ("": from the newest) and not older than
// since, that keep says yes to, at most limit. next is "" when there are no more.
func (s *Store) SwitchPage(ctx context.Context, before string, since time.Time, limit int, keep func(json.RawMessage) bool) (page []SwitchRecord, next string, err error) {
	end := clientv3.GetPrefixRangeEnd(switchPrefix)
	if before != "" {
		end = switchPrefix + before
	}
	begin := switchPrefix
	if !since.IsZero() {
		begin = switchPrefix + formatID(max(since.UnixNano(), 0))
	}
	const chunk = 500
	for begin < end {
		res, err := run(ctx, s, "read switch log", func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, begin, clientv3.WithRange(end), clientv3.WithLimit(chunk),
				clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
		})
		if err != nil {
			return nil, "", err
		}
		for _, kv := range res.Kvs {
			end = string(kv.Key)
			if !keep(kv.Value) {
				continue
			}
			if len(page) == limit {
				return page, page[limit-1].ID, s.AddLater(ctx, page)
			}
			page = append(page, SwitchRecord{ID: strings.TrimPrefix(end, switchPrefix), Entry: kv.Value})
		}
		if !res.More {
			break
		}
	}
	return page, "", s.AddLater(ctx, page)
}

// AddLater fills in the later records of a page that are in the store; the page is in descending order of ID.
func (s *Store) AddLater(ctx context.Context, page []SwitchRecord) error {
	if len(page) == 0 {
		return nil
	}
	first, last := page[len(page)-1].ID, page[0].ID
	for _, prefix := range []string{publishPrefix, undonePrefix} {
		res, err := run(ctx, s, "read switch log", func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, prefix+first, clientv3.WithRange(prefix+last+"\x00"))
		})
		if err != nil {
			return err
		}
		byID := make(map[string]json.RawMessage, len(res.Kvs))
		for _, kv := range res.Kvs {
			byID[strings.TrimPrefix(string(kv.Key), prefix)] = kv.Value
		}
		for i := range page {
			later, ok := byID[page[i].ID]
			switch {
			case !ok: // of a page of the archive the record may be there
			case prefix == publishPrefix:
				page[i].Publication = later
			default:
				page[i].Undone = later
			}
		}
	}
	return nil
}

// AuditTrail reads the newest audit lines, newest first.
func (s *Store) AuditTrail(ctx context.Context, limit int64) ([]Audit, error) {
	res, err := run(ctx, s, "read audit trail", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, auditPrefix, clientv3.WithPrefix(), clientv3.WithLimit(limit),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	})
	if err != nil {
		return nil, err
	}
	out := make([]Audit, 0, len(res.Kvs))
	for _, kv := range res.Kvs {
		var a Audit
		if err := json.Unmarshal(kv.Value, &a); err != nil {
			return nil, fmt.Errorf("audit line %s: %w", kv.Key, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// NextVersion is the first map version that was never reserved. It is not reserved by this.
func (s *Store) NextVersion(ctx context.Context) (uint64, error) {
	return run(ctx, s, "read map versions", func(ctx context.Context) (uint64, error) {
		res, err := s.client.Get(ctx, versionKey)
		if err != nil || len(res.Kvs) == 0 {
			return 1, err
		}
		return strconv.ParseUint(string(res.Kvs[0].Value), 10, 64)
	})
}

// ReserveVersions takes n map versions that were never given out, and returns the first; the first of all is 1.
func (s *Store) ReserveVersions(ctx context.Context, n uint64) (uint64, error) {
	return run(ctx, s, "reserve map versions", func(ctx context.Context) (uint64, error) {
		for {
			res, err := s.client.Get(ctx, versionKey)
			if err != nil {
				return 0, err
			}
			next, rev := uint64(1), int64(0)
			if len(res.Kvs) > 0 {
				rev = res.Kvs[0].ModRevision
				if next, err = strconv.ParseUint(string(res.Kvs[0].Value), 10, 64); err != nil {
					return 0, fmt.Errorf("stored map version: %w", err)
				}
			}
			txn, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(versionKey), "=", rev)).
				Then(clientv3.OpPut(versionKey, strconv.FormatUint(next+n, 10))).Commit()
			if err != nil {
				return 0, err
			}
			if txn.Succeeded {
				return next, nil
			}
		}
	})
}
