package archive

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"
)

// SwitchRow is one switch with what became known later; each part is JSON or nil.
type SwitchRow struct {
	ID                         string
	Entry, Publication, Undone []byte
}

// SwitchQuery selects a part of the switch log. Zero fields do not narrow it.
type SwitchQuery struct {
	Before  string    // only older than this ID
	Since   time.Time // only not older
	Service string
	Limit   int
}

// Switches reads the switch log backwards.
func (a *Archive) Switches(ctx context.Context, q SwitchQuery) ([]SwitchRow, error) {
	before, err := beforeOf(q.Before)
	if err != nil {
		return nil, err
	}
	where, args := `id < ? AND id >= ?`, []any{before, sinceOf(q.Since)}
	if q.Service != "" {
		where, args = where+` AND service = ?`, append(args, q.Service)
	}
	var out []SwitchRow
	err = a.rows(ctx, "read switches of history", `SELECT id, entry, publication, undone FROM switches WHERE `+where+` ORDER BY id DESC LIMIT ?`, append(args, q.Limit), func(rows *sql.Rows) error {
		var id int64
		var r SwitchRow
		err := rows.Scan(&id, &r.Entry, &r.Publication, &r.Undone)
		r.ID = formatID(id)
		out = append(out, r)
		return err
	})
	return out, err
}

// AuditQuery selects a part of the audit trail. Zero fields do not narrow it. Kind is compared without case.
type AuditQuery struct {
	Before            string
	Since             time.Time
	Kind, Name, Actor string
	Limit             int
}

// Audit reads the audit trail backwards; the lines have no documents.
func (a *Archive) Audit(ctx context.Context, q AuditQuery) ([]Line, error) {
	before, err := beforeOf(q.Before)
	if err != nil {
		return nil, err
	}
	where, args := []string{`id < ?`, `id >= ?`}, []any{before, sinceOf(q.Since)}
	for _, f := range []struct{ column, value string }{{`kind = ? COLLATE NOCASE`, q.Kind}, {`name = ?`, q.Name}, {`actor = ?`, q.Actor}} {
		if f.value != "" {
			where, args = append(where, f.column), append(args, f.value)
		}
	}
	var out []Line
	err = a.rows(ctx, "read audit trail of history", `SELECT id, revision, time, actor, action, kind, name, reason, NULL FROM audit WHERE `+strings.Join(where, ` AND `)+` ORDER BY id DESC LIMIT ?`, append(args, q.Limit), func(rows *sql.Rows) error {
		l, err := scanLine(rows)
		out = append(out, l)
		return err
	})
	return out, err
}

// Revisions gives each the revisions of one resource backwards, those older than an ID ("": from the newest), at most
// limit. One document at a time is in memory.
func (a *Archive) Revisions(ctx context.Context, kind, name, beforeID string, limit int, each func(Line) error) error {
	before, err := beforeOf(beforeID)
	if err != nil {
		return err
	}
	return a.rows(ctx, "read revisions", `SELECT id, revision, time, actor, action, kind, name, reason, document FROM revisions WHERE kind = ? AND name = ? AND id < ? ORDER BY id DESC LIMIT ?`, []any{kind, name, before, limit}, func(rows *sql.Rows) error {
		l, err := scanLine(rows)
		if err != nil {
			return err
		}
		return each(l)
	})
}

// Revision reads one revision of a resource and the one before it; fewer than two if they are not there. A store that was
// put back from a backup counts some revisions again: the newest of a number counts.
func (a *Archive) Revision(ctx context.Context, kind, name string, revision int64) ([]Line, error) {
	var out []Line
	err := a.rows(ctx, "read a revision", `SELECT id, revision, time, actor, action, kind, name, reason, document FROM revisions
		WHERE kind = ?1 AND name = ?2 AND id <= (SELECT max(id) FROM revisions WHERE kind = ?1 AND name = ?2 AND revision = ?3) ORDER BY id DESC LIMIT 2`,
		[]any{kind, name, revision}, func(rows *sql.Rows) error {
			l, err := scanLine(rows)
			out = append(out, l)
			return err
		})
	return out, err
}

func scanLine(rows *sql.Rows) (Line, error) {
	var l Line
	var id, nanos int64
	err := rows.Scan(&id, &l.Revision, &nanos, &l.Actor, &l.Action, &l.Kind, &l.Name, &l.Reason, &l.Document)
	l.ID, l.Time = formatID(id), time.Unix(0, nanos).UTC()
	l.Gone = l.Document == nil
	return l, err
}

func (a *Archive) rows(ctx context.Context, what, query string, args []any, each func(*sql.Rows) error) error {
	return a.read(what, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func beforeOf(id string) (int64, error) {
	if id == "" {
		return math.MaxInt64, nil
	}
	return number(id)
}

func sinceOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixNano(), 0)
}

// Size is how many bytes the file uses, without what is free in it.
func (a *Archive) Size(ctx context.Context) (int64, error) {
	var n int64
	err := a.read("size of history", func(db *sql.DB) error {
		var err error
		n, err = used(ctx, db)
		return err
	})
	return n, err
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func used(ctx context.Context, q querier) (int64, error) {
	var pages, free, size int64
	row := q.QueryRowContext(ctx, `SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_size FROM pragma_page_size)`)
	if err := row.Scan(&pages, &free, &size); err != nil {
		return 0, fmt.Errorf("size: %w", err)
	}
	return (pages - free) * size, nil
}
