package geotest

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/geo/internal/ranges"
)

// areaText is a row of versions 1 and 2, codeText one of version 3. What is not known is 0.
func areaText(r Range) string {
	return joined(r.Country.ZH, "", r.Province.ZH, r.City.ZH, r.ISP.ZH)
}

func codeText(r Range) string {
	return joined(r.Country.ZH, r.Province.ZH, r.City.ZH, r.ISP.ZH, r.Code)
}

func joined(columns ...string) string {
	for i, c := range columns {
		if c == "" {
			columns[i] = "0"
		}
	}
	return strings.Join(columns, "|")
}

// The parts of a .db: one entry of the header index for each 8 KiB of entries.
const (
	dbIndexEntries = 2048
	dbEntrySize    = 12
	dbPerBlock     = 8192 / dbEntrySize
)

// DB writes the IPv4 ranges of a list as a version 1 database. Gaps are ranges of which nothing is known, as in real
// files, which cover the whole space.
func DB(list []Range) []byte {
	v4, _ := families(list)
	out := make([]byte, 8+8*dbIndexEntries)
	var texts textPool
	type entry struct{ first, last, text uint32 }
	var entries []entry
	eachWithGaps(v4, func(first, last ranges.V4, r *Range) {
		text := "0|0|0|0|0"
		if r != nil {
			text = areaText(*r)
		}
		at := texts.put(&out, "\x01\x00\x00\x00"+text)
		entries = append(entries, entry{uint32(first), uint32(last), at | uint32(len(text)+4)<<24})
	})
	start := len(out)
	for i, e := range entries {
		if i%dbPerBlock == 0 && i/dbPerBlock < dbIndexEntries {
			slot := out[8+8*(i/dbPerBlock):]
			binary.LittleEndian.PutUint32(slot, e.first)
			binary.LittleEndian.PutUint32(slot[4:], uint32(len(out)))
		}
		for _, n := range []uint32{e.first, e.last, e.text} {
			out = binary.LittleEndian.AppendUint32(out, n)
		}
	}
	binary.LittleEndian.PutUint32(out, uint32(start))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-dbEntrySize))
	return out
}

// textPool writes each text once.
type textPool struct{ at map[string]uint32 }

func (p *textPool) put(out *[]byte, text string) uint32 {
	if p.at == nil {
		p.at = map[string]uint32{}
	}
	at, ok := p.at[text]
	if !ok {
		at = uint32(len(*out))
		p.at[text] = at
		*out = append(*out, text...)
	}
	return at
}

// eachWithGaps visits the ranges and what lies between them, r nil, up to the end of IPv4.
func eachWithGaps(v4 []Range, each func(first, last ranges.V4, r *Range)) {
	next := uint64(0)
	for i := range v4 {
		first, last := ranges.FromV4(v4[i].First), ranges.FromV4(v4[i].Last)
		if next < uint64(first) {
			each(ranges.V4(next), first-1, nil)
		}
		each(first, last, &v4[i])
		next = uint64(last) + 1
	}
	if next < 1<<32 {
		each(ranges.V4(next), ^ranges.V4(0), nil)
	}
}

// The parts of a .xdb.
const (
	xdbHeader = 256
	xdbVector = 256 * 256 * 8
)

// XDB writes the ranges of one family as an .xdb of structure 2 (IPv4 only) or 3.
func XDB(list []Range, structure uint16, family int) []byte {
	v4, v6 := families(list)
	rangesOf, text := v4, areaText
	if family == 6 {
		rangesOf = v6
	}
	if structure == 3 {
		text = codeText
	}
	out := make([]byte, xdbHeader+xdbVector)
	var texts textPool
	for _, r := range rangesOf {
		texts.put(&out, text(r))
	}
	start, last := len(out), 0
	for _, r := range rangesOf {
		for _, piece := range pieces(r.First, r.Last) {
			last = len(out)
			for _, a := range piece {
				b := a.AsSlice()
				if family == 4 {
					slices.Reverse(b) // IPv4 is little-endian, IPv6 is not
				}
				out = append(out, b...)
			}
			out = binary.LittleEndian.AppendUint16(out, uint16(len(text(r))))
			out = binary.LittleEndian.AppendUint32(out, texts.at[text(r)])
			cell(out[xdbHeader:], piece[0], last, len(out))
		}
	}
	binary.LittleEndian.PutUint16(out, structure)
	binary.LittleEndian.PutUint16(out[2:], 1) // index policy: vector
	binary.LittleEndian.PutUint32(out[4:], Build)
	binary.LittleEndian.PutUint32(out[8:], uint32(start))
	binary.LittleEndian.PutUint32(out[12:], uint32(last))
	if structure == 3 {
		binary.LittleEndian.PutUint16(out[16:], uint16(family))
		binary.LittleEndian.PutUint16(out[18:], 4)
	}
	return out
}

// cell notes an entry in the vector index: the first and the end of those whose addresses begin with two bytes.
func cell(vector []byte, a netip.Addr, at, end int) {
	b := a.AsSlice()
	slot := vector[(int(b[0])*256+int(b[1]))*8:]
	if binary.LittleEndian.Uint32(slot) == 0 {
		binary.LittleEndian.PutUint32(slot, uint32(at))
	}
	binary.LittleEndian.PutUint32(slot[4:], uint32(end))
}

// pieces cuts a range where its first two bytes change.
func pieces(first, last netip.Addr) [][2]netip.Addr {
	var out [][2]netip.Addr
	for {
		p, _ := first.Prefix(16)
		end := lastOf(p)
		if !end.Less(last) {
			return append(out, [2]netip.Addr{first, last})
		}
		out = append(out, [2]netip.Addr{first, end})
		first = end.Next()
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	if p.Addr().Is4() {
		return ranges.FromV4(p.Addr()).Last(p.Bits()).Addr()
	}
	return ranges.FromV6(p.Addr()).Last(p.Bits()).Addr()
}
