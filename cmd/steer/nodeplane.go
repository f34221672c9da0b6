package main

import (
	"context"
	"time"

	"steerpoint/agent"
	"steerpoint/authdns"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// dnsPlane is the name server as the agent sees it.
type dnsPlane struct{ *authdns.Server }

// Swap takes maps in the order of control's stream. One with a lower version is of a control that went back to an older
// copy of its data: it is the newest all the same.
func (p dnsPlane) Swap(d *snapshot.DNS) error {
	if was := p.Current(); was != nil && d.Version < was.Version {
		return p.Adopt(d)
	}
	return p.Server.Swap(d) // which takes over what did not change; Adopt makes everything anew
}

// State describes the map that answers.
func (p dnsPlane) State() report.NodeMap {
	m := p.Map()
	return report.NodeMap{Version: m.Version, Created: m.Created, Age: m.Age, FromDisk: m.FromDisk, Queries: p.Queries(), KeyTrouble: p.KeyTrouble()}
}

const (
	// silentAfter is when answers begin to say that control is not heard: a restart of control is over by then.
	silentAfter = time.Minute
	// confirmEvery is how often the name server is told that control is heard.
	confirmEvery = time.Second
)

// confirm tells the name server that control is heard, as long as its stream stands.
func (m *member) confirm(ctx context.Context) error {
	t := time.NewTicker(confirmEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if m.agent.Following(agent.RoleDNS) {
				m.dns.Confirm()
			}
		}
	}
}
