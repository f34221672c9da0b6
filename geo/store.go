package geo

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Config says which sources a Store loads.
type Config struct {
	// Lists are prefix list files of the operator, the most preferred first. They beat every database. Empty: none.
	Lists []string
	// Databases are mmdb files, the most preferred first. Empty: none.
	Databases []string
	// NoBuiltin leaves the built-in country table out. Default false: it is the last source, for addresses of which no
	// other one knows the country.
	NoBuiltin bool
}

// Open loads all sources of a configuration. The error joins what is wrong with each file; then there is no DB.
func Open(cfg Config) (*DB, error) {
	var sources []*Source
	var errs []error
	for _, path := range slices.Concat(cfg.Lists, cfg.Databases) {
		s, err := ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources = append(sources, s)
	}
	if !cfg.NoBuiltin {
		s, err := Builtin()
		if err != nil {
			errs = append(errs, err)
		}
		sources = append(sources, s)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return New(sources...), nil
}

// Store holds the current DB and replaces it whole: a reader sees the old one or the new one. Files are opened anew by
// path at each Reload, so replacing a file by rename works; a bad one changes nothing.
type Store struct {
	cfg    Config
	reload sync.Mutex // one Reload at a time
	db     atomic.Pointer[DB]
}

// NewStore returns a store that holds the built-in table only (or nothing, with NoBuiltin) until the first Reload. The
// error is that of a damaged build.
func NewStore(cfg Config) (*Store, error) {
	db, err := Open(Config{NoBuiltin: cfg.NoBuiltin})
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	s.db.Store(db)
	return s, nil
}

// DB returns the current database, never nil. A caller uses one DB for one piece of work.
func (s *Store) DB() *DB { return s.db.Load() }

// Reload loads every file again and, if all are good, makes them current. changed is false when nothing differs from
// the current DB. On an error the current DB stays, and the error names each bad file; raise an alarm and go on.
func (s *Store) Reload() (changed bool, err error) {
	s.reload.Lock()
	defer s.reload.Unlock()
	db, err := Open(s.cfg)
	if err != nil {
		return false, err
	}
	if slices.Equal(db.Sources(), s.DB().Sources()) {
		return false, nil
	}
	s.db.Store(db)
	return true, nil
}
