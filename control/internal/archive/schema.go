package archive

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
)

// steps bring a file from each version to the next; the version of a file is the number of steps it has behind it. A step
// that was released is never changed: another one follows it.
//
// An id is the entry's ID as a number: nanoseconds of wall time, always growing, so the primary key is the order of time.
var steps = []string{
	`CREATE TABLE cursors (log TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID;
	CREATE TABLE switches (id INTEGER PRIMARY KEY, service TEXT NOT NULL, entry BLOB NOT NULL, publication BLOB, undone BLOB);
	CREATE TABLE audit (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, time INTEGER NOT NULL, actor TEXT NOT NULL,
		action TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL);
	CREATE TABLE revisions (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, time INTEGER NOT NULL, actor TEXT NOT NULL,
		action TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL, document BLOB)`,
	// One service's switches, and one resource's revisions, without reading those of all others.
	`CREATE INDEX switches_by_service ON switches (service, id);
	CREATE INDEX audit_by_resource ON audit (kind, name, id);
	CREATE INDEX revisions_by_resource ON revisions (kind, name, id)`,
}

// Where an SQLite file says what it is (its file format, section 1.3).
const (
	headerBytes   = 100
	offVersion    = 60
	offID         = 68
	firstPage     = 4096
	headerMagic   = "SQLite format 3\x00"
	walHeaderSize = 32
)

// recognise refuses a file of another program, or of a newer one, by its header: opening it as a database would change
// it. A file that began and was killed before its first write to the file itself has no mark yet.
func recognise(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	head := make([]byte, headerBytes)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:len(headerMagic)]) != headerMagic {
		return fmt.Errorf("%w: it is no database", ErrDamaged)
	}
	version, id := binary.BigEndian.Uint32(head[offVersion:]), binary.BigEndian.Uint32(head[offID:])
	wal, err := os.Stat(f.Name() + "-wal")
	begun := id == 0 && (size <= firstPage || err == nil && wal.Size() > walHeaderSize)
	switch {
	case id != applicationID && !begun:
		return fmt.Errorf("%w: it is another program's", ErrDamaged)
	case int(version) > len(steps):
		return newer(int(version))
	}
	return nil
}

func newer(version int) error {
	return fmt.Errorf("%w: it has version %d, this program reads up to %d", ErrNewer, version, len(steps))
}

// migrate brings a file to this version. A file of another program is ErrDamaged: it is not written to.
func migrate(ctx context.Context, db *sql.DB) error {
	var version, id, tables int
	row := db.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_master)`)
	if err := row.Scan(&version, &id, &tables); err != nil {
		return err
	}
	switch fresh := version == 0 && id == 0 && tables == 0; {
	case !fresh && id != applicationID:
		return fmt.Errorf("%w: it is another program's", ErrDamaged)
	case version > len(steps):
		return newer(version)
	}
	for ; version < len(steps); version++ {
		if err := step(ctx, db, version); err != nil {
			return fmt.Errorf("to version %d: %w", version+1, err)
		}
	}
	return nil
}

// step runs one step whole: a process killed in it finds the file as it was.
func step(ctx context.Context, db *sql.DB, n int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, q := range []string{steps[n], fmt.Sprintf("PRAGMA application_id = %d", applicationID), fmt.Sprintf("PRAGMA user_version = %d", n+1)} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			_ = tx.Rollback() // the error that counts is the first one
			return err
		}
	}
	return tx.Commit()
}
