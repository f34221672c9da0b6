package answer

import "steerpoint/snapshot"

// numberZones notes which zone of the snapshot each one is of.
func (b *builder) numberZones(d *snapshot.DNS) {
	for i := range d.Zones {
		if name, err := packName(d.Zones[i].Name); err == nil && b.zones[string(name)] != nil {
			b.zones[string(name)].at = i
		}
	}
}

// serial is the serial of a zone's SOA; z nil: the version of the map.
func (ix *Index) serial(z *zone) uint32 {
	if z == nil {
		return uint32(ix.Version)
	}
	return ix.d.Serial(z.at)
}
