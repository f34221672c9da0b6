package control

import "steerpoint/spec"

// engineZones are the zones in use.
func (r *rig) engineZones() (zones []*spec.Zone) {
	r.t.Helper()
	if err := r.do(r.t.Context(), func() { zones = r.engine.Set().Zones() }); err != nil {
		r.t.Fatal(err)
	}
	return zones
}
