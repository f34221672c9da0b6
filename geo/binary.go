package geo

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// The binary form of a table: magic with the format's version, the IPv4 runs, the IPv6 runs, and a CRC-32C of all
// before it, big endian. JSON carries it as one base64 string (RFC 4648 section 4, padded). docs/geo.md has the bytes.
const (
	tableMagic = "SGT\x01"
	crcSize    = 4
)

// AppendBinary appends the binary form; it implements encoding.BinaryAppender. The zero Table cannot be written.
func (t *Table) AppendBinary(dst []byte) ([]byte, error) {
	if t.index4 == nil {
		return nil, &Error{Code: CodeTable, Msg: "an empty table cannot be written; compile one first"}
	}
	start := len(dst)
	dst = append(dst, tableMagic...)
	dst = ranges.Append4(dst, t.v4)
	dst = ranges.Append6(dst, t.v6)
	return binary.BigEndian.AppendUint32(dst, checksum(dst[start:])), nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (t *Table) MarshalBinary() ([]byte, error) { return t.AppendBinary(nil) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It accepts exactly the bytes AppendBinary writes; anything
// else is an *Error with CodeTable and leaves t as it was. data is not kept.
func (t *Table) UnmarshalBinary(data []byte) error {
	read, err := decodeTable(data)
	if err != nil {
		return &Error{Code: CodeTable, Msg: "the table cannot be used", Err: err}
	}
	*t = *read
	return nil
}

// MarshalJSON writes the binary form as a base64 string.
func (t *Table) MarshalJSON() ([]byte, error) {
	data, err := t.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// UnmarshalJSON reads what MarshalJSON writes. null is an error: a missing table must not pass for one.
func (t *Table) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil || string(text) == "null" {
		return &Error{Code: CodeTable, Msg: "a table is a base64 string", Err: err}
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return &Error{Code: CodeTable, Msg: "a table is a base64 string", Err: err}
	}
	return t.UnmarshalBinary(data)
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

func decodeTable(data []byte) (*Table, error) {
	if len(data) < len(tableMagic)+crcSize {
		return nil, fmt.Errorf("%d bytes: %w", len(data), ranges.ErrShort)
	}
	if got := string(data[:len(tableMagic)]); got != tableMagic {
		return nil, fmt.Errorf("it starts with %q, not with %q: another format, or another version of it", got, tableMagic)
	}
	body, sum := data[:len(data)-crcSize], binary.BigEndian.Uint32(data[len(data)-crcSize:])
	if checksum(body) != sum {
		return nil, errors.New("the checksum does not fit: damaged or cut short")
	}
	v4, rest, err := ranges.Read4(body[len(tableMagic):])
	if err != nil {
		return nil, fmt.Errorf("IPv4: %w", err)
	}
	v6, rest, err := ranges.Read6(rest)
	if err != nil {
		return nil, fmt.Errorf("IPv6: %w", err)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(rest))
	}
	if err := checkMarkers(v4, v6); err != nil {
		return nil, err
	}
	return newTable(v4, v6), nil
}

// checkMarkers holds a table to what Compile makes: the marker on exactly the embedding blocks if IPv4 has several
// values, else IPv4's value there.
func checkMarkers(v4 ranges.Runs[ranges.V4, uint16], v6 ranges.Runs[ranges.V6, uint16]) error {
	for _, v := range v4.Values {
		if v == embedded {
			return errors.New("an IPv4 value that is reserved")
		}
	}
	plain := ranges.Map(v6, func(v uint16) uint16 {
		if v == embedded {
			return Unmapped
		}
		return v
	})
	want := embedV4(plain, v4)
	if want.Len() != v6.Len() {
		return fmt.Errorf("the blocks %s and IPv4-mapped are not marked as they must be", scope.EmbeddingBlocks())
	}
	for i := range v6.Starts {
		if want.Starts[i] != v6.Starts[i] || want.Values[i] != v6.Values[i] {
			return fmt.Errorf("the blocks %s and IPv4-mapped are not marked as they must be", scope.EmbeddingBlocks())
		}
	}
	return nil
}
