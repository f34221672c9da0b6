// Package countryfile is the file form of the built-in country table. docs/geo.md has the bytes.
package countryfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"steerpoint/geo/internal/ranges"
)

const (
	magic = "SGC\x01"
	// maxSize bounds the unpacked file, in bytes: ten times today's.
	maxSize = 64 << 20
)

// Table is a country for every address, with its origin.
type Table struct {
	Date    time.Time // of the data; a day, UTC
	Source  string    // what it was made from, with its version
	Licence string
	Credit  string
	// Countries are ISO 3166-1 alpha-2 codes. Value v of a run is Countries[v-1]; 0 is unknown.
	Countries []string
	V4        ranges.Runs[ranges.V4, uint16]
	V6        ranges.Runs[ranges.V6, uint16]
}

// Encode writes the table: equal tables give equal bytes.
func Encode(t *Table) ([]byte, error) {
	raw := []byte(magic)
	for _, text := range []string{t.Date.Format(time.DateOnly), t.Source, t.Licence, t.Credit} {
		raw = binary.AppendUvarint(raw, uint64(len(text)))
		raw = append(raw, text...)
	}
	raw = binary.AppendUvarint(raw, uint64(len(t.Countries)))
	for _, c := range t.Countries {
		if len(c) != 2 {
			return nil, fmt.Errorf("country %q is not two letters", c)
		}
		raw = append(raw, c...)
	}
	raw = ranges.Append4(raw, t.V4)
	raw = ranges.Append6(raw, t.V6)
	raw = binary.BigEndian.AppendUint32(raw, checksum(raw))
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if _, err := z.Write(raw); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// Decode reads what Encode writes.
func Decode(packed []byte) (*Table, error) {
	raw, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(raw) < len(magic)+4 || string(raw[:len(magic)]) != magic {
		return nil, errors.New("not a country table of this version")
	}
	body := raw[:len(raw)-4]
	if checksum(body) != binary.BigEndian.Uint32(raw[len(body):]) {
		return nil, errors.New("the checksum does not fit")
	}
	return parse(body[len(magic):])
}

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSize {
		return nil, fmt.Errorf("larger than %d bytes", maxSize)
	}
	return raw, z.Close()
}

func parse(src []byte) (*Table, error) {
	t := &Table{}
	var date string
	for _, text := range []*string{&date, &t.Source, &t.Licence, &t.Credit} {
		n, size := binary.Uvarint(src)
		if size <= 0 || n > uint64(len(src)-size) {
			return nil, errors.New("cut short in the header")
		}
		*text, src = string(src[size:size+int(n)]), src[size+int(n):]
	}
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return nil, fmt.Errorf("date: %w", err)
	}
	t.Date = day
	n, size := binary.Uvarint(src)
	if size <= 0 || n > uint64(len(src)-size)/2 {
		return nil, errors.New("cut short in the countries")
	}
	src = src[size:]
	for range n {
		t.Countries = append(t.Countries, string(src[:2]))
		src = src[2:]
	}
	if t.V4, src, err = ranges.Read4(src); err != nil {
		return nil, fmt.Errorf("IPv4: %w", err)
	}
	if t.V6, src, err = ranges.Read6(src); err != nil {
		return nil, fmt.Errorf("IPv6: %w", err)
	}
	if len(src) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(src))
	}
	return t, t.check()
}

func (t *Table) check() error {
	for _, values := range [][]uint16{t.V4.Values, t.V6.Values} {
		for _, v := range values {
			if int(v) > len(t.Countries) {
				return fmt.Errorf("value %d of %d countries", v, len(t.Countries))
			}
		}
	}
	return nil
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
