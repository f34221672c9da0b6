// Package ip2region reads whole databases of the ip2region project, the old .db (version 1) and .xdb (structures 2 and
// 3, IPv4 and IPv6), into runs of places. It never panics and bounds its work by the size of the file, whatever the
// bytes are. Both are sorted lists of ranges that point to texts; their first-level indexes are not needed to read a
// whole file, and not read.
//
// .db: little-endian pointers to the first and the last index entry; an entry is start, end and a pointer (offset 24
// bits, length 8 bits) to a record of 4 bytes, then text. The header index at byte 8 begins with address 0 and the
// first entry's pointer, which tells the format.
//
// .xdb: a header of 256 bytes (version, index policy, creation time, pointers to the first and last entry, and in
// structure 3 the IP version and the pointer size), an index of 512 KiB, texts, entries. An entry is start, end
// (IPv4 little-endian, IPv6 big-endian), text length (2 bytes), text pointer (4 bytes).
package ip2region

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"steerpoint/geo/internal/places"
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// Errors for errors.Is.
var (
	ErrDamaged = errors.New("damaged or cut short")
	ErrLayout  = errors.New("texts of an unknown layout")
)

// File is the content of one database.
type File struct {
	Format string    // "db", "xdb 2" or "xdb 3"
	Layout Layout    // how texts are built
	Built  time.Time // zero: the file does not say
	Set    *places.Set
	V4     ranges.Runs[ranges.V4, uint32]
	V6     ranges.Runs[ranges.V6, uint32]
	// Strange counts ranges whose country is not in ISO 3166-1.
	Strange int
}

// Layout names how the texts of a file are built.
type Layout string

// The layouts: country|area|province|city|ISP of versions 1 and 2, and country|province|city|ISP|code of version 3.
const (
	Area Layout = "country|area|province|city|isp"
	Code Layout = "country|province|city|isp|code"
)

// columns is the number of columns in either layout.
const columns = 5

// The parts of a .db and a .xdb.
const (
	dbHead      = 8 + 8 // the two pointers and the first entry of the header index
	dbEntry     = 4 + 4 + 4
	dbCityID    = 4 // bytes of a record before its text
	xdbHead     = 256
	xdbEntry4   = 4 + 4 + 2 + 4
	xdbEntry6   = 16 + 16 + 2 + 4
	xdbByVector = 1 // index policies
	xdbByBTree  = 2
)

// Is reports whether data begin like a file of either format.
func Is(data []byte) bool { return isDB(data) || isXDB(data) }

func isDB(data []byte) bool {
	if len(data) < dbHead {
		return false
	}
	first, last := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	return first >= dbHead && last >= first && (last-first)%dbEntry == 0 &&
		binary.LittleEndian.Uint32(data[8:]) == 0 && binary.LittleEndian.Uint32(data[12:]) == first
}

func isXDB(data []byte) bool {
	if len(data) < 20 {
		return false
	}
	version, policy := binary.LittleEndian.Uint16(data), binary.LittleEndian.Uint16(data[2:])
	first, last := binary.LittleEndian.Uint32(data[8:]), binary.LittleEndian.Uint32(data[12:])
	return (version == 2 || version == 3) && (policy == xdbByVector || policy == xdbByBTree) &&
		first >= xdbHead && last >= first
}

// Read parses a database. The error wraps ErrDamaged or ErrLayout. data is not kept.
func Read(data []byte) (*File, error) {
	f := &File{Set: places.New(), V4: ranges.Uniform[ranges.V4, uint32](0), V6: ranges.Uniform[ranges.V6, uint32](0)}
	switch {
	case isDB(data):
		f.Format = "db"
		return f, readDB(f, data)
	case isXDB(data):
		return f, readXDB(f, data)
	}
	return nil, fmt.Errorf("%w: no header", ErrDamaged)
}

func readDB(f *File, data []byte) error {
	first, last := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	entries, err := entriesOf(data, first, last, dbEntry)
	if err != nil {
		return err
	}
	text := func(e []byte) (string, error) {
		p := binary.LittleEndian.Uint32(e[8:])
		at, n := uint64(p&0xFFFFFF), uint64(p>>24)
		if n < dbCityID {
			return "", fmt.Errorf("%w: a record of %d bytes", ErrDamaged, n)
		}
		return cut(data, at+dbCityID, n-dbCityID)
	}
	return layOut(f, &f.V4, entries, dbEntry, text, func(e []byte) (ranges.V4, ranges.V4) {
		return ranges.V4(binary.LittleEndian.Uint32(e)), ranges.V4(binary.LittleEndian.Uint32(e[4:]))
	})
}

func readXDB(f *File, data []byte) error {
	version := binary.LittleEndian.Uint16(data)
	f.Format = fmt.Sprintf("xdb %d", version)
	f.Built = time.Unix(int64(binary.LittleEndian.Uint32(data[4:])), 0).UTC()
	first, last := binary.LittleEndian.Uint32(data[8:]), binary.LittleEndian.Uint32(data[12:])
	size := xdbEntry4
	if version == 3 {
		family, pointer := binary.LittleEndian.Uint16(data[16:]), binary.LittleEndian.Uint16(data[18:])
		switch {
		case family == 6:
			size = xdbEntry6
		case family != 4:
			return fmt.Errorf("%w: IP version %d", ErrDamaged, family)
		}
		if pointer != 4 {
			return fmt.Errorf("%w: pointers of %d bytes, not 4", ErrDamaged, pointer)
		}
	}
	entries, err := entriesOf(data, first, last, size)
	if err != nil {
		return err
	}
	text := func(e []byte) (string, error) {
		e = e[size-6:]
		return cut(data, uint64(binary.LittleEndian.Uint32(e[2:])), uint64(binary.LittleEndian.Uint16(e)))
	}
	if size == xdbEntry6 {
		return layOut(f, &f.V6, entries, size, text, func(e []byte) (ranges.V6, ranges.V6) { return key6(e), key6(e[16:]) })
	}
	return layOut(f, &f.V4, entries, size, text, func(e []byte) (ranges.V4, ranges.V4) {
		return ranges.V4(binary.LittleEndian.Uint32(e)), ranges.V4(binary.LittleEndian.Uint32(e[4:]))
	})
}

func key6(b []byte) ranges.V6 {
	return ranges.V6{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

// entriesOf cuts the list of entries out of a file.
func entriesOf(data []byte, first, last uint32, size int) ([]byte, error) {
	end := uint64(last) + uint64(size)
	switch {
	case end > uint64(len(data)):
		return nil, fmt.Errorf("%w: the list of ranges ends at byte %d of %d", ErrDamaged, end, len(data))
	case int(last-first)%size != 0:
		return nil, fmt.Errorf("%w: the list of ranges has no whole number of entries", ErrDamaged)
	}
	return data[first:end], nil
}

func cut(data []byte, at, n uint64) (string, error) {
	if at+n > uint64(len(data)) {
		return "", fmt.Errorf("%w: a text at %d, behind the end", ErrDamaged, at)
	}
	return string(data[at : at+n]), nil
}

// layOut reads the entries in order. Texts are split when all are seen: which layout they have is a matter of the whole
// file, since a code of two letters may be an ISP's name too.
func layOut[K ranges.Key[K]](f *File, into *ranges.Runs[K, uint32], entries []byte, size int, text func([]byte) (string, error), bounds func([]byte) (K, K)) error {
	var s ranges.Segments[K, uint32]
	ids := map[string]uint32{"": 0} // provisional numbers of texts
	texts := []string{""}
	counts := []int{0}
	for i := 0; i+size <= len(entries); i += size {
		e := entries[i : i+size]
		t, err := text(e)
		if err != nil {
			return err
		}
		id, ok := ids[t]
		if !ok {
			id = uint32(len(texts))
			ids[t] = id
			texts, counts = append(texts, t), append(counts, 0)
		}
		counts[id]++
		first, last := bounds(e)
		if err := s.Add(first, last, id); err != nil {
			return fmt.Errorf("%w: range %d, %w", ErrDamaged, i/size+1, err)
		}
	}
	f.Layout = layoutOf(texts)
	final := make([]uint32, len(texts))
	for i, t := range texts[1:] {
		raw, err := f.Layout.split(t)
		if err != nil {
			return err
		}
		id, strange, err := f.Set.Add(raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if final[i+1] = id; strange {
			f.Strange += counts[i+1]
		}
	}
	*into = ranges.Map(s.Runs(), func(id uint32) uint32 { return final[id] })
	return nil
}

// layoutOf is Code when most texts that say something in their last column have a country code there.
func layoutOf(texts []string) Layout {
	said, codes := 0, 0
	for _, t := range texts {
		last := t[strings.LastIndexByte(t, '|')+1:]
		if last == "" || last == "0" {
			continue
		}
		said++
		if scope.ContinentOf(last) != "" {
			codes++
		}
	}
	if codes > said/2 {
		return Code
	}
	return Area
}

// split reads a text. Further columns are not known and not read.
func (l Layout) split(text string) (places.Raw, error) {
	c := strings.Split(text, "|")
	if len(c) < columns {
		return places.Raw{}, fmt.Errorf("%w: %d columns in %.60q, and known are %s and %s", ErrLayout, len(c), text, Area, Code)
	}
	if l == Code {
		return places.Raw{CountryName: c[0], Province: c[1], City: c[2], ISP: c[3], CountryCode: c[4]}, nil
	}
	return places.Raw{CountryName: c[0], Province: c[2], City: c[3], ISP: c[4]}, nil
}
