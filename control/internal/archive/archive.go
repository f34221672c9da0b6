// Package archive keeps history in one SQLite file: the switch log, the audit trail and every revision of every
// resource. It is fed from the store and decides nothing.
//
// Invariants: what is written twice is there once; how far each log was copied (its cursor) is written in the same
// transaction as what was copied; a file that cannot be read is renamed, never overwritten.
//
// The file is in WAL mode with synchronous=NORMAL: a power cut may cost the last writes, and never a whole file. That is
// enough, because everything here comes from the store again from the cursor on. Sync makes all of it last; only then may
// the store forget its share.
package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"steerpoint/internal/atomicfile"
)

// Errors a caller branches on.
var (
	// ErrDamaged: the file is torn, overwritten or none of ours. SetAside and Open begin a new one.
	ErrDamaged = errors.New("history file is damaged")
	// ErrNewer: a newer version of the program wrote the file; it is not touched.
	ErrNewer = errors.New("a newer version of the program wrote the history file")
	// ErrFull: the disk is full.
	ErrFull = errors.New("no space left for history")
	// ErrClosed: the file is not open now.
	ErrClosed = errors.New("history file is not open")
)

const (
	// applicationID marks the file as ours in its header: "STER".
	applicationID = 0x53544552
	// batchRows bounds one transaction, so that readers of the newest entries wait for little.
	batchRows = 500
	// connections: one writer and a few readers, each with 2 MiB of page cache.
	connections = 4
	// DefaultBytes is the most a file takes unless told otherwise: about 500,000 switches with the votes of 30 points.
	DefaultBytes = 1 << 30
)

// Archive is one history file. Methods may run at the same time.
type Archive struct {
	path  string
	limit int64

	mu   sync.RWMutex // held for reading by every use of db
	db   *sql.DB      // nil: not open
	file fs.FileInfo  // what was opened
	made bool         // the file was made by Open

	write sync.Mutex // one writer at a time
}

// New names a history file and the most bytes it may take (0: DefaultBytes). It opens nothing.
func New(path string, limit int64) *Archive {
	if limit == 0 {
		limit = DefaultBytes
	}
	return &Archive{path: path, limit: limit}
}

// Path is the name of the file.
func (a *Archive) Path() string { return a.path }

// Open opens the file, makes it if absent and brings an older one to this version. An open file stays as it is. After
// an error nothing is open, and Open may be tried again.
func (a *Archive) Open(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.db != nil {
		return nil
	}
	// SQLite would make it readable for others; the files beside it take the mode of this one.
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = recognise(f, info.Size())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("history in %s: %w", a.path, err)
	}
	made := info.Size() == 0
	if made {
		db, err := begin(ctx, a.path, true)
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return fmt.Errorf("history in %s: %w", a.path, classify(err))
		}
	}
	db, err := begin(ctx, a.path, false)
	if err != nil {
		return err
	}
	a.db, a.file, a.made = db, info, made
	return nil
}

// begin opens a file and brings it to this version.
func begin(ctx context.Context, path string, fresh bool) (*sql.DB, error) {
	db, err := open(path, fresh)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("history in %s: %w", path, classify(err)), db.Close())
	}
	return db, nil
}

// Made reports whether Open found no history and began it.
func (a *Archive) Made() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.made
}

func open(path string, fresh bool) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}
	if fresh { // before anything is written, and not with every connection: it writes. Prune gives pages back by it
		pragmas = slices.Insert(pragmas, 1, "auto_vacuum(INCREMENTAL)")
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(2)
	return db, nil
}

// Present reports whether the open file is still the one that its path names.
func (a *Archive) Present() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	info, err := os.Stat(a.path)
	return a.db == nil || err == nil && os.SameFile(info, a.file)
}

// Close closes the file; Open opens it again.
func (a *Archive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.close()
}

func (a *Archive) close() error {
	if a.db == nil {
		return nil
	}
	err := a.db.Close()
	a.db = nil
	if err != nil {
		return fmt.Errorf("history: %w", classify(err))
	}
	return nil
}

// SetAside closes the file and renames it with what lies beside it; it returns the new name, or "" if there was no file.
func (a *Archive) SetAside() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	closed := a.close() // a damaged file may not close cleanly; it is moved all the same
	to, err := atomicfile.SetAside(a.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		to = ""
	case err != nil:
		return "", errors.Join(err, closed)
	}
	// The log holds what was not yet put in the file and belongs to it; the index of the log is made anew.
	if to != "" {
		err = os.Rename(a.path+"-wal", to+"-wal")
	} else {
		err = os.Remove(a.path + "-wal")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return to, fmt.Errorf("history: %w", err)
	}
	if err := os.Remove(a.path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return to, fmt.Errorf("history: %w", err)
	}
	return to, nil
}

// read runs f on the open file.
func (a *Archive) read(what string, f func(*sql.DB) error) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.db == nil {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	if err := f(a.db); err != nil {
		return fmt.Errorf("%s: %w", what, classify(err))
	}
	return nil
}

// change runs f in a transaction of its own: all of it, or nothing.
func (a *Archive) change(ctx context.Context, what string, f func(*sql.Tx) error) error {
	a.write.Lock()
	defer a.write.Unlock()
	return a.read(what, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			// The error that counts is the first one; a transaction that cannot be rolled back ends with its connection.
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	})
}

// classify tells damage and a full disk from other errors.
func classify(err error) error {
	var e *sqlite.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff { // the rest says more of the same
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// CopyTo writes the file, as it is at one moment, to another path, where there must be no file. Writing goes on meanwhile.
// The copy has the mode 0600. After an error something of it may be there.
func (a *Archive) CopyTo(ctx context.Context, path string) error {
	// SQLite would make it readable for others. It takes an empty file, and leaves its mode.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("copy the history: %w", err)
	}
	return a.read("copy the history", func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", path)
		return err
	})
}
