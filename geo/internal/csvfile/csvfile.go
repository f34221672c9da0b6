// Package csvfile reads a list of address ranges in CSV into runs of places: first address, last address, then what is
// known. Addresses are written as such or as integers. A first line of names decides the columns; without one, the
// layouts of the ip-location-db family (asn, country, city) and of DB-IP's own files are known by their columns. It
// bounds its work by the size of the file, whatever the bytes are.
package csvfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"steerpoint/geo/internal/places"
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// ErrLayout is for errors.Is: the columns are not known.
var ErrLayout = errors.New("no column that is known")

// LineError is one line that cannot be used.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error says the line and what is wrong.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// File is the content of one list.
type File struct {
	Columns []string // what was read, in the order of the file; "" is a column that is not
	Set     *places.Set
	V4      ranges.Runs[ranges.V4, uint32]
	V6      ranges.Runs[ranges.V6, uint32]
	// Strange counts ranges whose country is not in ISO 3166-1.
	Strange int
	// Overlaps counts ranges that overlap the one before them. Real lists have one or two; the first line has the addresses.
	Overlaps int
}

// maxOverlaps is one line in so many: more is no slip, and the list is refused.
const maxOverlaps = 1000

// The columns.
const (
	first       = "first"
	last        = "last"
	continent   = "continent"
	country     = "country"
	countryName = "country name"
	province    = "province"
	city        = "city"
	isp         = "isp"
	asn         = "asn"
)

// spellings of the names of columns, folded.
func columnOf(name string) string {
	for column, all := range map[string]string{
		first:       "start first startip ipstart iprangestart rangestart from firstip",
		last:        "end last endip ipend iprangeend rangeend to lastip",
		continent:   "continent continentcode",
		country:     "country countrycode countryisocode cc",
		countryName: "countryname",
		province:    "province region state state1 stateprov regionname provincename subdivision subdivision1 regioncode provincecode",
		city:        "city cityname",
		isp:         "isp ispdomain ispname carrier operator",
		asn:         "asn as asnumber autonomoussystemnumber",
	} {
		if slices.Contains(strings.Fields(all), name) {
			return column
		}
	}
	return ""
}

// Is reports whether the first line that is no comment looks like this format: two addresses or integers in front, or
// names of columns with a first and a last address.
func Is(data []byte) bool {
	line, _ := firstLine(data)
	fields, err := split(nil, line)
	if err != nil || len(fields) < 3 {
		return false
	}
	if header(fields) != nil {
		return true
	}
	for _, f := range fields[:2] {
		if _, err := address(string(f)); err != nil {
			return false
		}
	}
	return true
}

// firstLine gives the first line that is not empty and no comment, and its number.
func firstLine(data []byte) ([]byte, int) {
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte(bom))) {
		number++
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return line, number
		}
	}
	return nil, 0
}

const bom = "\xef\xbb\xbf"

// header gives the columns a line of names stands for, or nil when it is none.
func header(fields [][]byte) []string {
	columns := make([]string, len(fields))
	for i, f := range fields {
		columns[i] = columnOf(scope.Fold(string(f)))
	}
	if !slices.Contains(columns, first) || !slices.Contains(columns, last) {
		return nil
	}
	return columns
}

// byShape gives the columns of a file without names.
func byShape(fields [][]byte) []string {
	code := func(i int) bool { return len(fields[i]) == 0 || len(fields[i]) == 2 }
	digits := func(i int) bool {
		_, err := strconv.ParseUint(string(fields[i]), 10, 32)
		return err == nil
	}
	switch {
	case len(fields) == 3 && code(2):
		return []string{first, last, country}
	case len(fields) == 4 && digits(2):
		return []string{first, last, asn, ""}
	case len(fields) == 8 && code(2) && code(3): // DB-IP: continent, country, province, city, position
		return []string{first, last, continent, country, province, city, "", ""}
	case len(fields) == 10 && code(2): // ip-location-db: country, two provinces, city, postcode, position, time zone
		return []string{first, last, country, province, "", city, "", "", "", ""}
	}
	return nil
}

// parser is a file being read.
type parser struct {
	columns []string
	at      map[string]int
	set     *places.Set
	byText  map[string]row // what follows the addresses, as it is written
	v4      ranges.Segments[ranges.V4, uint32]
	v6      ranges.Segments[ranges.V6, uint32]
	strange int

	number     int // of the line
	lines      int // with a range
	overlaps   int
	overlapped *LineError // the first
}

type row struct {
	id      uint32
	strange bool
}

// Read parses a list. The error is a *LineError, or wraps ErrLayout. data is not kept.
func Read(data []byte) (*File, error) {
	p := &parser{set: places.New(), byText: map[string]row{}}
	skip, err := p.layout(data)
	if err != nil {
		return nil, err
	}
	var fields [][]byte
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte(bom))) {
		p.number++
		line = bytes.TrimSpace(line)
		if p.number <= skip || len(line) == 0 || line[0] == '#' {
			continue
		}
		p.lines++
		if fields, err = split(fields[:0], line); err == nil {
			err = p.line(line, fields)
		}
		if err != nil {
			return nil, &LineError{Line: p.number, Err: err}
		}
	}
	if p.overlaps*maxOverlaps > p.lines {
		return nil, p.overlapped
	}
	return &File{Columns: p.columns, Set: p.set, V4: p.v4.Runs(), V6: p.v6.Runs(), Strange: p.strange, Overlaps: p.overlaps}, nil
}

// layout finds the columns and how many lines to skip.
func (p *parser) layout(data []byte) (skip int, err error) {
	line, number := firstLine(data)
	fields, err := split(nil, line)
	if err != nil {
		return 0, &LineError{Line: number, Err: err}
	}
	if p.columns = header(fields); p.columns != nil {
		skip = number
	} else if len(fields) > 2 {
		p.columns = byShape(fields)
	}
	p.at = map[string]int{}
	for i, c := range p.columns {
		if _, ok := p.at[c]; !ok && c != "" {
			p.at[c] = i
		}
	}
	if len(p.at) < 3 {
		return 0, fmt.Errorf("%w: %.200q; write a first line of names: start, end, and country_code, country_name, continent, province, city, isp or asn", ErrLayout, line)
	}
	return skip, nil
}

func (p *parser) line(text []byte, fields [][]byte) error {
	if len(fields) != len(p.columns) {
		return fmt.Errorf("%d columns, and the first line has %d", len(fields), len(p.columns))
	}
	from, to := fields[p.at[first]], fields[p.at[last]]
	a, err := address(string(from))
	if err != nil {
		return err
	}
	b, err := address(string(to))
	if err != nil {
		return err
	}
	if a.Is4() != b.Is4() {
		if !digitsOnly(from) || !digitsOnly(to) {
			return fmt.Errorf("%s and %s are of two families", from, to)
		}
		a, b = wide(a), wide(b) // a small integer of an IPv6 file
	}
	r, err := p.row(text, fields)
	if err != nil {
		return err
	}
	if r.strange {
		p.strange++
	}
	if a.Is4() {
		return add(p, &p.v4, ranges.FromV4(a), ranges.FromV4(b), r.id)
	}
	return add(p, &p.v6, ranges.FromV6(a), ranges.FromV6(b), r.id)
}

// add appends a range. Of one that overlaps the one before, what is free is taken, and the line is counted.
func add[K ranges.Key[K]](p *parser, s *ranges.Segments[K, uint32], a, b K, id uint32) error {
	err := s.Add(a, b, id)
	if !errors.Is(err, ranges.ErrOverlap) {
		return err
	}
	if p.overlaps++; p.overlapped == nil {
		p.overlapped = &LineError{Line: p.number, Err: err}
	}
	if free, ok := s.Next(); ok && !b.Less(free) {
		return s.Add(free, b, id)
	}
	return nil
}

// row gives the place of a line. Lines with equal texts behind the addresses share it.
func (p *parser) row(text []byte, fields [][]byte) (row, error) {
	behind := text
	if p.at[first] == 0 && p.at[last] == 1 {
		behind = text[skipTwo(text):]
	}
	if r, ok := p.byText[string(behind)]; ok {
		return r, nil
	}
	get := func(column string) string {
		if i, ok := p.at[column]; ok {
			return string(fields[i])
		}
		return ""
	}
	raw := places.Raw{
		Continent: get(continent), CountryCode: get(country), CountryName: get(countryName), Province: get(province),
		City: get(city), ISP: get(isp),
	}
	if len(raw.CountryCode) > 2 && raw.CountryName == "" {
		raw.CountryName = raw.CountryCode
	}
	if n := get(asn); n != "" && n != "0" && n != "-" {
		number, err := scope.ParseASN(n)
		if err != nil {
			return row{}, err
		}
		raw.ASN = number
	}
	id, strange, err := p.set.Add(raw)
	if err != nil {
		return row{}, err
	}
	r := row{id: id, strange: strange}
	p.byText[string(behind)] = r
	return r, nil
}

// skipTwo is the length of the first two fields and their commas. Addresses hold no comma.
func skipTwo(text []byte) int {
	i := bytes.IndexByte(text, ',') + 1
	return i + bytes.IndexByte(text[i:], ',') + 1
}

func digitsOnly(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// wide gives an integer of 32 bits as one of 128; one of 128 stays as it is.
func wide(a netip.Addr) netip.Addr {
	if !a.Is4() {
		return a
	}
	var b [16]byte
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}

// address reads an address or an integer. An integer that fits in 32 bits is IPv4.
func address(text string) (netip.Addr, error) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n))
		return netip.AddrFrom4(b), nil
	}
	if digitsOnly([]byte(text)) && len(text) < 40 {
		n, ok := new(big.Int).SetString(text, 10)
		if ok && n.BitLen() <= 128 {
			var b [16]byte
			n.FillBytes(b[:])
			return netip.AddrFrom16(b), nil
		}
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return a, fmt.Errorf("%.60q is not an address, and not an integer of 32 or 128 bits", text)
	}
	return a.Unmap(), nil
}

// split cuts a line at commas, appending to fields. A field may stand in double quotes; two of them inside are one.
func split(fields [][]byte, line []byte) ([][]byte, error) {
	for {
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, ',')
			if i < 0 {
				return append(fields, bytes.TrimSpace(line)), nil
			}
			fields, line = append(fields, bytes.TrimSpace(line[:i])), line[i+1:]
			continue
		}
		field, rest, ok := quoted(line[1:])
		if !ok {
			return nil, errors.New("a quote without its end")
		}
		fields = append(fields, field)
		if len(rest) == 0 {
			return fields, nil
		}
		if rest[0] != ',' {
			return nil, errors.New("text behind a closing quote")
		}
		line = rest[1:]
	}
}

// quoted reads up to the closing quote.
func quoted(line []byte) (field, rest []byte, ok bool) {
	from := 0
	for {
		i := bytes.IndexByte(line[from:], '"')
		if i < 0 {
			return nil, nil, false
		}
		end := from + i
		if end+1 >= len(line) || line[end+1] != '"' {
			return bytes.ReplaceAll(line[:end], []byte(`""`), []byte(`"`)), line[end+1:], true
		}
		from = end + 2
	}
}
