package geo

import "steerpoint/steering/scope"

// merger gives merged places ids, and remembers which two ids merge to which.
type merger struct {
	places []scope.Place
	ids    map[scope.Place]uint32
	pairs  map[[2]uint32]uint32
}

func newMerger() *merger {
	return &merger{
		places: []scope.Place{{}},
		ids:    map[scope.Place]uint32{{}: 0},
		pairs:  make(map[[2]uint32]uint32),
	}
}

func (m *merger) id(p scope.Place) uint32 {
	id, ok := m.ids[p]
	if !ok {
		id = uint32(len(m.places))
		m.places = append(m.places, p)
		m.ids[p] = id
	}
	return id
}

// intern returns the merged ids of a source's places, by the source's ids.
func (m *merger) intern(places []scope.Place) []uint32 {
	ids := make([]uint32, len(places))
	for i, p := range places {
		ids[i] = m.id(p)
	}
	return ids
}

func (m *merger) merge(over, under uint32) uint32 {
	if over == 0 {
		return under
	}
	if under == 0 || over == under {
		return over
	}
	pair := [2]uint32{over, under}
	id, ok := m.pairs[pair]
	if !ok {
		id = m.id(fill(m.places[over], m.places[under]))
		m.pairs[pair] = id
	}
	return id
}

// nameISPs gives places without an ISP the one that their AS number stands for, and returns the new ids by the old ones;
// nil when nothing changed.
func (m *merger) nameISPs() []uint32 {
	var final []uint32
	for i := range len(m.places) {
		p := m.places[i]
		id := scope.ISPOfASN(p.ASN)
		if p.ISP != "" || id == "" {
			continue
		}
		if final == nil {
			final = make([]uint32, len(m.places))
			for j := range final {
				final[j] = uint32(j)
			}
		}
		p.ISP = id
		final[i] = m.id(p)
	}
	return final
}

// fill completes a place with what a less preferred source knows. Location is taken downwards only while both agree:
// the province of a source that puts the address into another country would make a place that is nowhere.
func fill(over, under scope.Place) scope.Place {
	p := over
	if p.ISP == "" {
		p.ISP = under.ISP
	}
	if p.ASN == 0 {
		p.ASN = under.ASN
	}
	if p.Country == "" {
		if p.Continent == "" || p.Continent == under.Continent {
			p.Continent, p.Country, p.Province, p.City = under.Continent, under.Country, under.Province, under.City
		}
		return p
	}
	if p.Country != under.Country {
		return p
	}
	if p.Province == "" && p.City == "" {
		p.Province, p.City = under.Province, under.City
		return p
	}
	if p.City == "" && p.Province == under.Province {
		p.City = under.City
	}
	return p
}
