package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// pruneRows bounds one deletion, so that writers wait for little.
const pruneRows = 2000

// Sync makes everything written so far last through a power cut: the store may forget it then.
func (a *Archive) Sync(ctx context.Context) error {
	a.write.Lock()
	defer a.write.Unlock()
	return a.read("sync history", func(db *sql.DB) error {
		// TRUNCATE syncs log and file, and waits for readers; what a long reader keeps in the log is not lost by it, but
		// it is not known to last.
		var busy, log, moved int
		if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &moved); err != nil {
			return err
		}
		if busy != 0 {
			return errors.New("a reader holds it")
		}
		return nil
	})
}

// Check reads the whole file and tells whether it is damaged (ErrDamaged).
func (a *Archive) Check(ctx context.Context) error {
	return a.read("check history", func(*sql.DB) error {
		db, err := open(a.path, false) // the file, and not what an open connection remembers of it
		if err != nil {
			return err
		}
		defer db.Close()
		var what string
		if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&what); err != nil {
			return err
		}
		if what != "ok" {
			return fmt.Errorf("%w: %s", ErrDamaged, what)
		}
		return nil
	})
}

// Prune deletes what is older than a time: switches, audit lines, and the revisions that were replaced before it. The
// revision that was in force at that time stays, however old, so that every state since then can be brought back; a
// resource that was deleted before it goes whole.
func (a *Archive) Prune(ctx context.Context, before time.Time) error {
	if err := a.deleteBefore(ctx, max(before.UnixNano(), 0)); err != nil {
		return err
	}
	return a.giveBack(ctx)
}

// Shrink deletes the oldest history until the file uses at most nine tenths of its bound, if it is above it; dropped says
// whether there was something to delete.
func (a *Archive) Shrink(ctx context.Context) (dropped bool, err error) {
	for {
		size, err := a.Size(ctx)
		if err != nil || size <= a.limit && !dropped || size <= a.limit*9/10 {
			return dropped, err
		}
		cut, err := a.oldestTenth(ctx)
		if err != nil || cut == 0 {
			return dropped, err
		}
		dropped = true
		if err := a.deleteBefore(ctx, cut); err != nil {
			return dropped, err
		}
		if err := a.giveBack(ctx); err != nil {
			return dropped, err
		}
	}
}

// oldestTenth is the ID before which a tenth of what can be deleted lies, of the table that takes the most; 0: nothing is
// left. Revisions in force cannot be deleted, so they are not counted.
func (a *Archive) oldestTenth(ctx context.Context) (cut int64, err error) {
	err = a.read("size of history", func(db *sql.DB) error {
		for _, from := range []string{`switches`, `audit`, `revisions WHERE ` + replaced(`9223372036854775807`)} {
			var n int64
			if err := db.QueryRowContext(ctx, `SELECT count(*) FROM `+from).Scan(&n); err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			var id int64
			if err := db.QueryRowContext(ctx, `SELECT id FROM `+from+` ORDER BY id LIMIT 1 OFFSET ?`, n/10).Scan(&id); err != nil {
				return err
			}
			if id++; cut == 0 || id < cut {
				cut = id
			}
		}
		return nil
	})
	return cut, err
}

// replaced is the condition of a revision that another one replaced before an ID, or that is a deletion older than it.
func replaced(id string) string {
	return `(EXISTS (SELECT 1 FROM revisions n WHERE n.kind = revisions.kind AND n.name = revisions.name AND n.id > revisions.id AND n.id < ` + id + `) OR document IS NULL AND id < ` + id + `)`
}

func (a *Archive) deleteBefore(ctx context.Context, id int64) error {
	for _, q := range []string{
		`DELETE FROM switches WHERE id IN (SELECT id FROM switches WHERE id < ?1 ORDER BY id LIMIT ?2)`,
		`DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ?1 ORDER BY id LIMIT ?2)`,
		`DELETE FROM revisions WHERE id IN (SELECT id FROM revisions WHERE id < ?1 AND ` + replaced(`?1`) + ` ORDER BY id LIMIT ?2)`,
	} {
		for more := true; more; {
			err := a.change(ctx, "prune history", func(tx *sql.Tx) error {
				res, err := tx.ExecContext(ctx, q, id, pruneRows)
				if err != nil {
					return err
				}
				n, err := res.RowsAffected()
				more = n == pruneRows
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack returns free pages to the file system.
func (a *Archive) giveBack(ctx context.Context) error {
	a.write.Lock()
	defer a.write.Unlock()
	return a.read("shrink history", func(db *sql.DB) error {
		// The pragma works a page for each row that is read from it.
		rows, err := db.QueryContext(ctx, `PRAGMA incremental_vacuum`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
		}
		return rows.Err()
	})
}
