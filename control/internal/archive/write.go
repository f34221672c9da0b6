package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Logs that are copied, by the name of their cursor.
const (
	SwitchLog = "switches"
	AuditLog  = "audit"
)

// Part says which part of a switch a row is.
type Part int

// The parts.
const (
	Entry       Part = iota // the switch itself
	Publication             // when name servers answered by it
	Undone                  // when it ended
)

// SwitchPart is one record of the switch log. Publication and Undone of a switch that is not there are left out: it is
// older than what is kept.
type SwitchPart struct {
	ID      string // 16 hexadecimal digits
	Part    Part
	Service string // of an Entry
	Value   []byte // JSON
}

// Line is one line of the audit trail. With Document, or with Gone, it is also a revision of the resource.
type Line struct {
	ID       string // 16 hexadecimal digits
	Revision int64  // of the store
	Time     time.Time
	Actor    string
	Action   string // create, update, delete
	Kind     string
	Name     string
	Reason   string
	Document []byte // JSON as it was written; nil: none is kept
	Gone     bool   // the resource was deleted
}

// Cursor is the store's revision up to which a log was copied; 0: nothing was.
func (a *Archive) Cursor(ctx context.Context, log string) (int64, error) {
	var n int64
	err := a.read("cursor of history", func(db *sql.DB) error {
		err := db.QueryRowContext(ctx, `SELECT revision FROM cursors WHERE log = ?`, log).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return n, err
}

func setCursor(ctx context.Context, tx *sql.Tx, log string, revision int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO cursors (log, revision) VALUES (?, ?) ON CONFLICT (log) DO UPDATE SET revision = excluded.revision`, log, revision)
	return err
}

// WriteSwitches adds records and, with the last of them, moves the cursor of the switch log to a revision (0: it stays).
func (a *Archive) WriteSwitches(ctx context.Context, parts []SwitchPart, cursor int64) error {
	return inBatches(parts, func(batch []SwitchPart, last bool) error {
		return a.change(ctx, "write switches to history", func(tx *sql.Tx) error {
			if err := putSwitches(ctx, tx, batch); err != nil || !last || cursor == 0 {
				return err
			}
			return setCursor(ctx, tx, SwitchLog, cursor)
		})
	})
}

// WriteAudit adds audit lines and their revisions and, with the last, moves the cursor of the audit trail (0: it stays).
func (a *Archive) WriteAudit(ctx context.Context, lines []Line, cursor int64) error {
	return inBatches(lines, func(batch []Line, last bool) error {
		return a.change(ctx, "write audit trail to history", func(tx *sql.Tx) error {
			if err := putLines(ctx, tx, batch); err != nil || !last || cursor == 0 {
				return err
			}
			return setCursor(ctx, tx, AuditLog, cursor)
		})
	})
}

// inBatches gives all to f in parts; an empty list is one part.
func inBatches[T any](all []T, f func(batch []T, last bool) error) error {
	for {
		n := min(len(all), batchRows)
		if err := f(all[:n], n == len(all)); err != nil || n == len(all) {
			return err
		}
		all = all[n:]
	}
}

// putSwitches writes parts. What is there already is left as it is, so that copying again costs no writes.
func putSwitches(ctx context.Context, tx *sql.Tx, parts []SwitchPart) error {
	statements := [...]string{
		Entry:       `INSERT INTO switches (id, service, entry) VALUES (?3, ?2, ?1) ON CONFLICT (id) DO NOTHING`,
		Publication: `UPDATE switches SET publication = ?1 WHERE id = ?3 AND publication IS NOT ?1 AND ?2 = ''`,
		Undone:      `UPDATE switches SET undone = ?1 WHERE id = ?3 AND undone IS NOT ?1 AND ?2 = ''`,
	}
	var prepared [len(statements)]*sql.Stmt
	for i := range parts {
		p := &parts[i]
		id, err := number(p.ID)
		if err != nil {
			return err
		}
		if prepared[p.Part] == nil {
			if prepared[p.Part], err = tx.PrepareContext(ctx, statements[p.Part]); err != nil {
				return err
			}
		}
		if _, err := prepared[p.Part].ExecContext(ctx, p.Value, p.Service, id); err != nil {
			return err
		}
	}
	return nil
}

const insertRevision = `INSERT INTO revisions (id, revision, time, actor, action, kind, name, reason, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`

func putLines(ctx context.Context, tx *sql.Tx, lines []Line) error {
	audit, err := tx.PrepareContext(ctx, `INSERT INTO audit (id, revision, time, actor, action, kind, name, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`)
	if err != nil {
		return err
	}
	revision, err := tx.PrepareContext(ctx, insertRevision)
	if err != nil {
		return err
	}
	for i := range lines {
		l := &lines[i]
		id, err := number(l.ID)
		if err != nil {
			return err
		}
		if _, err := audit.ExecContext(ctx, id, l.Revision, l.Time.UnixNano(), l.Actor, l.Action, l.Kind, l.Name, l.Reason); err != nil {
			return err
		}
		if l.Document == nil && !l.Gone {
			continue
		}
		if _, err := revision.ExecContext(ctx, id, l.Revision, l.Time.UnixNano(), l.Actor, l.Action, l.Kind, l.Name, l.Reason, l.Document); err != nil {
			return err
		}
	}
	return nil
}

// Seed adds the revisions that are in force and that no audit line told of: a resource is then in its history from the
// first copy on. Each takes the ID of its time, or the next free one. Lines need no ID.
func (a *Archive) Seed(ctx context.Context, now []Line) error {
	return inBatches(now, func(batch []Line, _ bool) error {
		return a.change(ctx, "write resources to history", func(tx *sql.Tx) error {
			for i := range batch {
				if err := seed(ctx, tx, &batch[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func seed(ctx context.Context, tx *sql.Tx, l *Line) error {
	var known bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM revisions WHERE kind = ? AND name = ? AND revision = ?)`, l.Kind, l.Name, l.Revision).Scan(&known)
	if err != nil || known {
		return err
	}
	for id := max(l.Time.UnixNano(), 0); ; id++ {
		res, err := tx.ExecContext(ctx, insertRevision, id, l.Revision, l.Time.UnixNano(), l.Actor, l.Action, l.Kind, l.Name, l.Reason, l.Document)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
	}
}

// number is the key of an ID.
func number(id string) (int64, error) {
	n, err := strconv.ParseInt(id, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("entry id %q: %w", id, err)
	}
	return n, nil
}

func formatID(n int64) string { return fmt.Sprintf("%016x", n) }
