// Package mmdb reads a whole MaxMind DB file into runs of places. It never panics and bounds its work by the size of
// the file, whatever the bytes are.
//
// The format is at https://maxmind.github.io/MaxMind-DB/. Metadata and records are decoded by the maxminddb library;
// the search tree is walked here, since a walk must end even when nodes are shared or form a loop.
package mmdb

import (
	"errors"
	"fmt"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"

	"steerpoint/geo/internal/places"
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// Errors for errors.Is.
var (
	ErrDamaged = errors.New("damaged or cut short")
	ErrLayout  = errors.New("unknown layout of records")
)

// File is the content of one database.
type File struct {
	Type   string // database_type of the metadata
	Layout Layout
	Built  time.Time
	// Places by id; id 0 is the empty place.
	Places []scope.Place
	V4     ranges.Runs[ranges.V4, uint32]
	V6     ranges.Runs[ranges.V6, uint32] // without the embedded IPv4 space and its aliases
	// Strange counts networks whose country is not in ISO 3166-1.
	Strange int
}

// Marker is the byte string that starts the metadata of every file of the format.
const Marker = "\xab\xcd\xefMaxMind.com"

// Read parses a database. The error wraps ErrDamaged or ErrLayout. data is not kept.
func Read(data []byte) (file *File, err error) {
	defer func() {
		// The library is not ours and the bytes may be anybody's: a bug in it must not end the process.
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("%w: the decoder gave up: %v", ErrDamaged, r)
		}
	}()
	db, err := maxminddb.OpenBytes(data, maxminddb.DisableStringCache())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	tree, err := newTree(data, db.Metadata)
	if err != nil {
		return nil, err
	}
	records := &records{
		db:     db,
		byData: map[uint64]uint32{},
		set:    places.New(),
		odd:    map[uint64]bool{},
	}
	file = &File{Type: db.Metadata.DatabaseType, Built: db.Metadata.BuildTime().UTC()}
	if file.V4, file.V6, err = tree.walk(records); err != nil {
		return nil, err
	}
	if records.layout == "" {
		return nil, fmt.Errorf("%w: %s", ErrLayout, records.describe(db.Metadata.DatabaseType))
	}
	file.Layout, file.Places, file.Strange = records.layout, records.set.Places, records.strange
	return file, nil
}
